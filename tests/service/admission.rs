//! Who may connect.

use tapflow::units::{Endpoint, Net};
use tokio::net::TcpSocket;

use crate::support::frames::{self, Numbered};
use crate::support::peer::Peer;
use crate::support::program::Program;
use crate::support::rig::{Rig, Running, Socket};
use crate::support::{eventually, eventually_blocking};

async fn wait_active(running: &Running, n: u64) {
    eventually("connections are open", || {
        (running.scrape().sum("tapflow_connections_active", &[]) as u64 == n).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_over_the_limit_are_refused_and_a_place_that_falls_free_is_given_again() {
    for socket in Socket::BOTH {
        let running = Rig::new()
            .listeners(|l| l.connections_max = 3)
            .null()
            .start()
            .await;
        let at = running.at(socket);
        let mut open = Vec::new();
        for _ in 0..3 {
            open.push(Peer::bidirectional(&at).await);
        }
        for _ in 0..5 {
            assert!(Peer::connect(&at).await.read_to_end().await.is_empty());
        }
        running.wait_closed("refused_limit", 5).await;
        open.pop().expect("one is open").stop().await;
        wait_active(&running, 2).await;
        running.serves_well(socket, 10).await;
        assert_eq!(
            running
                .scrape()
                .sum("tapflow_connections_accepted_total", &[]),
            9.0
        );
        drop(open);
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_limit_per_peer_counts_each_address_and_each_user_apart() {
    let running = Rig::new()
        .listeners(|l| l.connections_per_peer_max = 2)
        .null()
        .start()
        .await;
    for socket in Socket::BOTH {
        let at = running.at(socket);
        let (_one, _two) = (
            Peer::bidirectional(&at).await,
            Peer::bidirectional(&at).await,
        );
        assert!(Peer::connect(&at).await.read_to_end().await.is_empty());
        if let Endpoint::Tcp { host, port } = at {
            let other = TcpSocket::new_v4().expect("a socket");
            other
                .bind("127.0.0.9:0".parse().expect("an address"))
                .expect("all of 127.0.0.0/8 is ours");
            let stream = other
                .connect(format!("{host}:{port}").parse().expect("an address"))
                .await
                .expect("a connection");
            let mut stream = tapflow::transport::Stream::Tcp(stream);
            let bytes = [frames::start(), Numbered::new().run(0..3), frames::stop()].concat();
            tokio::io::AsyncWriteExt::write_all(&mut stream, &bytes)
                .await
                .expect("another address is let in");
            running.wait_settled(3).await;
        }
    }
    running.wait_closed("refused_peer_limit", 2).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_allowed_networks_come_in_over_tcp_and_unix_is_not_asked() {
    let net = |text: &str| text.parse::<Net>().expect("a network");
    for (allow, lets_in) in [("192.0.2.0/24", false), ("127.0.0.0/8", true)] {
        let running = Rig::new()
            .listeners(|l| l.allow = vec![net(allow)])
            .null()
            .start()
            .await;
        match lets_in {
            true => running.serves_well(Socket::Tcp, 10).await,
            false => {
                assert!(
                    Peer::connect(&running.at(Socket::Tcp))
                        .await
                        .read_to_end()
                        .await
                        .is_empty()
                );
                running.wait_closed("refused_network", 1).await;
            }
        }
        running.serves_well(Socket::Unix, 10).await;
        running.stop().await;
    }
}

/// B134: a refused sender gives one log line with its address, however often it comes back, and every refusal is counted.
#[test]
fn refused_peers_give_one_log_line_and_are_counted() {
    let program = Program::new()
        .log("warn")
        .config("[[listener]]\nname = \"public\"\nuri = \"tcp:127.0.0.1:0\"\nallow = [\"192.0.2.0/24\"]\n[[output]]\ntype = \"null\"\n")
        .start();
    let Endpoint::Tcp { host, port } = program.endpoint("tcp:") else {
        panic!("a TCP listener")
    };
    for _ in 0..20 {
        let mut stream = std::net::TcpStream::connect((host.as_str(), port)).expect("a connection");
        let _ = std::io::Read::read_to_end(&mut stream, &mut Vec::new());
    }
    let series = "tapflow_connections_closed_total{listener=\"public\",reason=\"refused_network\"}";
    eventually_blocking(
        || "20 refusals".to_owned(),
        || (program.scrape().value(series) == 20.0).then_some(()),
    );
    let lines = program.lines_with("refused a connection");
    assert_eq!(lines.len(), 1, "{lines:#?}");
    for word in [
        "127.0.0.1:",
        "public",
        "refused_network",
        "allow names no network",
    ] {
        assert!(lines[0].contains(word), "{word:?} is not in {}", lines[0]);
    }
    assert_eq!(program.exit_code_of_stop(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_network_stays_out_whatever_is_allowed() {
    let net = |text: &str| text.parse::<Net>().expect("a network");
    let running = Rig::new()
        .listeners(|l| {
            l.allow = vec![net("127.0.0.0/8")];
            l.deny = vec![net("127.0.0.1")];
        })
        .null()
        .start()
        .await;
    let at = running.at(Socket::Tcp);
    assert!(Peer::connect(&at).await.read_to_end().await.is_empty());
    running.wait_closed("refused_network", 1).await;
    running.serves_well(Socket::Unix, 10).await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn local_users_and_groups_let_in_and_keep_out() {
    let (uid, gid) = (
        rustix::process::geteuid().as_raw().to_string(),
        rustix::process::getegid().as_raw().to_string(),
    );
    for (users, groups, let_in) in [
        (vec![uid.clone()], vec![], true),
        (vec![], vec![gid.clone()], true),
        (vec!["64999".to_owned()], vec![gid], true),
        (vec!["64999".to_owned()], vec![], false),
        (vec!["no-such-user-here".to_owned()], vec![], false),
    ] {
        let running = Rig::new()
            .listeners(|l| {
                l.allow_users.clone_from(&users);
                l.allow_groups.clone_from(&groups);
            })
            .null()
            .start()
            .await;
        if let_in {
            running.serves_well(Socket::Unix, 10).await;
        } else {
            let at = running.at(Socket::Unix);
            assert!(Peer::connect(&at).await.read_to_end().await.is_empty());
            running.wait_closed("refused_user", 1).await;
        }
        running.serves_well(Socket::Tcp, 10).await;
        running.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_again_and_again_is_refused_for_a_while() {
    let running = Rig::new()
        .listeners(|l| l.connects_per_peer_second_max = 5)
        .null()
        .start()
        .await;
    for socket in Socket::BOTH {
        let at = running.at(socket);
        for _ in 0..50 {
            drop(Peer::connect(&at).await);
        }
        // What it may take grows back by itself.
        let served = async {
            loop {
                let mut peer = Peer::connect(&at).await;
                let _ = peer.send_what_goes(&frames::ready()).await;
                if peer.read_or_end(4).await.is_some() {
                    return;
                }
                tokio::task::yield_now().await;
            }
        };
        crate::support::within("a peer that was too fast is let in again", served).await;
    }
    assert!(running.closed("refused_peer_rate") >= 80);
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_over_its_rate_waits_or_loses_frames_and_each_is_counted() {
    use tapflow::transport::options::OverRate;
    let payload = Numbered::new().run(0..5000);
    for over_rate in [OverRate::Wait, OverRate::Drop] {
        let running = Rig::new()
            .listeners(|l| {
                l.frames_per_peer_second_max = 2000;
                l.over_rate = over_rate;
                l.read_size = tapflow::units::ByteSize::kib(16);
            })
            .null()
            .start()
            .await;
        let started = std::time::Instant::now();
        let mut peer = Peer::bidirectional(&running.at(Socket::Unix)).await;
        peer.send(&payload).await;
        peer.stop().await;
        let ledger = running.wait_settled(5000).await;
        let took = started.elapsed().as_secs_f64();
        let waits = running.scrape().sum("tapflow_rate_waits_total", &[]);
        match over_rate {
            OverRate::Wait => {
                assert_eq!(ledger.lost(), 0);
                // 2,000 at once, the rest at 2,000 a second; the last read may be overdrawn.
                assert!(took > 1.0 && waits > 0.0, "{took} s, {waits} waits");
            }
            OverRate::Drop => {
                let kept = 5000 - ledger.lost();
                let most = 2000.0 * (1.0 + took) + 1.0;
                assert!(
                    (2000..=most as u64).contains(&kept),
                    "{kept} of 5000 in {took} s"
                );
                let dropped = crate::support::rig::drops(&ledger);
                assert_eq!(
                    dropped,
                    [("listener:unix/over_rate".to_owned(), ledger.lost())]
                );
            }
        }
        running.stop().await;
    }
}
