//! Crypto-PAn: prefix-preserving anonymisation of addresses (Xu, Fan, Ammar and Moon, "Prefix-Preserving IP Address
//! Anonymization", ICNP 2002).
//!
//! Two addresses that share their first n bits do so afterwards, and no more than these; who has the key can undo it. Bit i
//! is flipped by the first bit of AES-128 over the i bits before it, filled up with a pad made from the key. IPv6 works in
//! the same way with 128 bits.

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Block};

/// Octets of a key: the cipher's, then those the pad is made from.
pub(super) const KEY_LEN: usize = 32;

/// Blocks that are enciphered at a time.
const CHUNK: usize = 32;

/// The cipher with its pad.
#[derive(Clone)]
pub(super) struct CryptoPan {
    cipher: Aes128,
    pad: u128,
}

impl CryptoPan {
    pub(super) fn new(key: &[u8; KEY_LEN]) -> Self {
        let (mut cipher_key, mut pad) = ([0; 16], [0; 16]);
        cipher_key.copy_from_slice(&key[..16]);
        pad.copy_from_slice(&key[16..]);
        let cipher = Aes128::new(&cipher_key.into());
        let mut block = Block::from(pad);
        cipher.encrypt_block(&mut block);
        Self {
            cipher,
            pad: u128::from_be_bytes(block.into()),
        }
    }

    /// A key for the period of this number, from that of the file: two blocks of the number, enciphered.
    pub(super) fn derived(key: &[u8; KEY_LEN], period: u64) -> Self {
        let master = Self::new(key);
        let mut derived = [0; KEY_LEN];
        for (i, half) in derived.chunks_exact_mut(16).enumerate() {
            let input = (u128::from(period) << 8 | i as u128) ^ master.pad;
            let mut block = Block::from(input.to_be_bytes());
            master.cipher.encrypt_block(&mut block);
            half.copy_from_slice(&block);
        }
        Self::new(&derived)
    }

    /// The first `bits` bits of `address` anonymised, where its first bit is the highest; the others become 0.
    fn bits(&self, address: u128, bits: u32) -> u128 {
        let mut flip = 0u128;
        let mut blocks = [Block::default(); CHUNK];
        for from in (0..bits).step_by(CHUNK) {
            let chunk = (bits - from).min(CHUNK as u32);
            let blocks = &mut blocks[..chunk as usize];
            for (block, bit) in blocks.iter_mut().zip(from..) {
                // The first `bit` bits of the address, then the pad's.
                let rest = u128::MAX >> bit;
                let input = address & !rest | self.pad & rest;
                *block = Block::from(input.to_be_bytes());
            }
            self.cipher.encrypt_blocks(blocks);
            for (block, bit) in blocks.iter().zip(from..) {
                flip |= u128::from(block[0] >> 7) << (127 - bit);
            }
        }
        let kept = u128::MAX.checked_shr(bits).map_or(u128::MAX, |rest| !rest);
        (address ^ flip) & kept
    }

    /// Anonymises the first `bits` bits of an IPv4 address; the others become 0.
    pub(super) fn v4(&self, address: [u8; 4], bits: u8) -> [u8; 4] {
        let wide = u128::from(u32::from_be_bytes(address)) << 96;
        let done = self.bits(wide, u32::from(bits.min(32))) >> 96;
        (done as u32).to_be_bytes()
    }

    /// Anonymises the first `bits` bits of an IPv6 address; the others become 0.
    pub(super) fn v6(&self, address: [u8; 16], bits: u8) -> [u8; 16] {
        self.bits(u128::from_be_bytes(address), u32::from(bits.min(128)))
            .to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    /// Key and addresses that are published with the authors' implementation.
    const KEY: [u8; 32] = [
        21, 34, 23, 141, 51, 164, 207, 128, 19, 10, 91, 22, 73, 144, 125, 16, 216, 152, 143, 131,
        121, 121, 101, 39, 98, 87, 76, 45, 42, 132, 34, 2,
    ];

    #[test]
    fn the_published_vectors_come_out() {
        let pan = CryptoPan::new(&KEY);
        for (from, to) in [
            ("128.11.68.132", "135.242.180.132"),
            ("129.118.74.4", "134.136.186.123"),
            ("130.132.252.244", "133.68.164.234"),
            ("141.223.7.43", "141.167.8.160"),
            ("141.233.145.108", "141.129.237.235"),
            ("152.163.225.39", "151.140.114.167"),
            ("156.29.3.236", "147.225.12.42"),
            ("165.247.96.84", "162.9.99.234"),
            ("166.107.77.190", "160.132.178.185"),
            ("192.102.249.13", "252.138.62.131"),
            ("192.215.32.125", "252.43.47.189"),
            ("192.233.80.103", "252.25.108.8"),
            ("192.41.57.43", "252.222.221.184"),
            ("193.150.244.223", "253.169.52.216"),
            ("195.205.63.100", "255.186.223.5"),
            ("198.200.171.101", "249.199.68.213"),
            ("198.26.132.101", "249.36.123.202"),
            ("198.36.213.5", "249.7.21.132"),
            ("198.51.77.238", "249.18.186.254"),
            ("199.217.79.101", "248.38.184.213"),
        ] {
            let from: Ipv4Addr = from.parse().unwrap();
            let got = pan.v4(from.octets(), 32);
            assert_eq!(Ipv4Addr::from(got), to.parse::<Ipv4Addr>().unwrap());
        }
        let one: Ipv6Addr = "2001:db8::1".parse().unwrap();
        let got = Ipv6Addr::from(pan.v6(one.octets(), 128));
        assert_eq!(got.to_string(), "4401:2bc:603f:d91d:27f:ff8e:e6f1:dc1e");
    }

    #[test]
    fn addresses_share_as_many_bits_afterwards_as_before() {
        let pan = CryptoPan::new(&KEY);
        let base: u128 = 0x2001_0db8_1234_5678_9abc_def0_1357_9bdf;
        let done = |address: u128| u128::from_be_bytes(pan.v6(address.to_be_bytes(), 128));
        for bit in 0..128 {
            // Another bit there, and what comes after it another thing.
            let other = base ^ (1 << 127 >> bit) ^ ((u128::MAX >> bit >> 1) & 0x5555_5555);
            let shared = (done(base) ^ done(other)).leading_zeros();
            assert_eq!(shared, bit, "bit {bit}");
            // What is after a prefix plays no part in it.
            let prefix = pan.v6(other.to_be_bytes(), bit as u8);
            assert_eq!(prefix, pan.v6(base.to_be_bytes(), bit as u8));
            let mask = u128::MAX.checked_shr(bit).map_or(u128::MAX, |rest| !rest);
            assert_eq!(u128::from_be_bytes(prefix), done(base) & mask);
        }
        let v4 = |a: u32| u32::from_be_bytes(pan.v4(a.to_be_bytes(), 32));
        for bit in 0..32 {
            let (a, b) = (0xc000_0201u32, 0xc000_0201 ^ (1 << 31 >> bit));
            assert_eq!((v4(a) ^ v4(b)).leading_zeros(), bit);
        }
    }

    #[test]
    fn each_period_has_a_key_of_its_own_that_only_the_file_and_the_number_decide() {
        let v4 = |pan: &CryptoPan| pan.v4([192, 0, 2, 1], 32);
        let periods: Vec<_> = (0..50).map(|n| v4(&CryptoPan::derived(&KEY, n))).collect();
        let mut distinct = periods.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 50);
        assert_eq!(v4(&CryptoPan::derived(&KEY, 7)), periods[7]);
    }
}
