# Makes compressed.tsv. Needs Python 3 and the command line tools zstd and lz4. The payloads of the first five rows
# are the examples of go-framestream; the rest is made here, by other encoders than ours.
import os, gzip, zlib, struct, subprocess, random
def be(n): return struct.pack('>I', n)
def bulk(ps):
    run=b''.join(be(len(p))+p for p in ps); return be(len(run))+run, run, len(ps)
def one(p): return be(len(p))+p, be(len(p))+p, 1
def zst(b,*a): return subprocess.run(['zstd','-c','-q',*a],input=b,capture_output=True,check=True).stdout
def lz(b,*a): return subprocess.run(['lz4','-c','-q','-z',*a],input=b,capture_output=True,check=True).stdout
def gz(b): return gzip.compress(b,6,mtime=0)
rows=[]
def ok(name,codec,payload,t,limit=1<<20):
    inner,run,n=t
    rows.append((name,codec,payload.hex(),f'frames={n} len={len(run)} crc={zlib.crc32(run):08x}',limit))
def err(name,codec,payload,reason,limit=1<<20): rows.append((name,codec,payload.hex(),f'error={reason}',limit))
hello=bulk([b'hello',b'world!'])
T={'gzip':'1f8b080000096e8800ff001700e8ff000000130000000568656c6c6f00000006776f726c642103003e5bf41b17000000',
'lz4':'04224d186470b917000080000000130000000568656c6c6f00000006776f726c6421000000005e429bb7',
'snappy':'82534e41505059000000000100000001000000191758000000130000000568656c6c6f00000006776f726c6421',
'zstd':'28b52ffd0400b90000000000130000000568656c6c6f00000006776f726c6421b9668c05'}
for c,h in T.items(): ok('go-bulk-'+c,c,bytes.fromhex(h),hello)
ok('snappy-raw-block','snappy',bytes.fromhex(T['snappy'])[20:],hello)
# one frame: a payload that begins with a dnstap tag
p=b'\x0a\x04ns-1\x72\x02\x08\x05\x78\x01'
o=one(p)
# (made by zlib, the zstd tool and the lz4 tool; snappy by hand)
ok('one-gzip','gzip',gz(o[0]),o)
ok('one-zstd','zstd',zst(o[0],'--no-content-size'),o)
ok('one-lz4','lz4',lz(o[0]),o)
def lit(b): return (bytes([len(b)]) + bytes([(len(b)-1)<<2]) + b)
X=bytes.fromhex('82534e41505059000000000100000001')
def xer(*chunks): return X+b''.join(be(len(c))+c for c in chunks)
ok('one-snappy','snappy',xer(lit(o[0])),o)
ok('one-octet-payload','gzip',gz(be(1)+b'\x0a'),one(b'\x0a'))
# a one-frame payload that begins like a length but does not tile
q=be(3)+b'ab'; ok('one-that-does-not-tile','gzip',gz(be(len(q))+q),one(q))
# several members, frames, chunks
b=hello[0]
ok('gzip-two-members','gzip',gz(b[:9])+gz(b[9:]),hello)
ok('gzip-empty-member-between','gzip',gz(b[:9])+gz(b'')+gz(b[9:]),hello)
d=zlib.compressobj(9,zlib.DEFLATED,-15); raw=d.compress(b)+d.flush()
hdr=b'\x1f\x8b\x08\x1e'+b'\0'*4+b'\0\x03'+struct.pack('<H',4)+b'abcd'+b'name\0'+b'comment\0'+b'\x00\x00'
ok('gzip-all-header-fields','gzip',hdr+raw+struct.pack('<II',zlib.crc32(b),len(b)),hello)
ok('zstd-two-frames','zstd',zst(b[:9])+zst(b[9:],'--no-check','--no-content-size'),hello)
ok('zstd-skippable-frame','zstd',struct.pack('<II',0x184d2a53,3)+b'xyz'+zst(b),hello)
ok('lz4-two-frames','lz4',lz(b[:9],'-B4')+lz(b[9:],'-B5'),hello)
ok('lz4-skippable-frame','lz4',struct.pack('<II',0x184d2a5f,3)+b'xyz'+lz(b),hello)
ok('snappy-two-chunks','snappy',xer(lit(b[:9]),lit(b[9:])),hello)
# larger, compressible
random.seed(7)
big=bulk([bytes([0x0a])+(b'query %d example.org '%(i%17))*(i%40+1) for i in range(500)])
ok('big-gzip','gzip',gz(big[0]),big)
ok('big-zstd-no-size','zstd',zst(big[0],'--no-content-size'),big)
ok('big-zstd-sized','zstd',zst(big[0],'--stream-size=%d'%len(big[0])),big)
ok('big-lz4-linked-64k-blocks','lz4',lz(big[0],'-B4','-BD'),big)
ok('big-lz4-block-checksums','lz4',lz(big[0],'-B4','-BX'),big)
ok('big-lz4-content-size','lz4',lz(big[0],'-B4','--content-size'),big)
# limits
n=len(b)
for c in T:
    ok(f'limit-exactly-{c}',c,bytes.fromhex(T[c]),hello,limit=n)
    err(f'limit-one-under-{c}',c,bytes.fromhex(T[c]),'decompressed_too_large',limit=n-1)
err('limit-one-under-snappy-raw','snappy',bytes.fromhex(T['snappy'])[20:],'decompressed_too_large',limit=n-1)
err('limit-one-under-zstd-no-size','zstd',zst(b,'--no-content-size'),'decompressed_too_large',limit=n-1)
err('limit-one-under-lz4-compressed','lz4',lz(bulk([b'a'*300])[0]),'decompressed_too_large',limit=307)
ok('limit-exactly-lz4-compressed','lz4',lz(bulk([b'a'*300])[0]),bulk([b'a'*300]),limit=308)
# claims
err('snappy-claims-4-gib','snappy',xer(b'\xff\xff\xff\xff\x0f\x00'),'decompressed_too_large')
err('zstd-claims-a-tebibyte','zstd',bytes.fromhex('28b52ffd')+bytes([0xe0])+struct.pack('<Q',1<<40)+b'\x01\x00\x00','decompressed_too_large')
zw=zst(b,'--no-content-size','--no-check')
# window descriptor 2^31+: exponent 21
err('zstd-window-of-2-gib','zstd',zw[:5]+bytes([21<<3])+zw[6:],'decompress_window')
# inner layout
for c,f in (('gzip',gz),('zstd',zst),('lz4',lz)):
    err(f'no-bytes-inside-{c}',c,f(b''),'decompressed_empty')
err('no-chunks-snappy','snappy',X,'decompressed_empty')
err('total-of-zero','gzip',gz(be(0)),'decompressed_empty')
err('three-octets-inside','gzip',gz(b'\0\0\0'),'decompressed_length_mismatch')
err('total-one-too-small','gzip',gz(be(len(b)-5)+b[4:]),'decompressed_length_mismatch')
err('total-one-too-large','gzip',gz(be(len(b)-3)+b[4:]),'decompressed_length_mismatch')
err('total-near-2-32','gzip',gz(b'\xff\xff\xff\xff'+b[4:]),'decompressed_length_mismatch')
# damage
g=bytes.fromhex(T['gzip'])
err('gzip-wrong-crc','gzip',g[:-5]+bytes([g[-5]^1])+g[-4:],'decompress_checksum')
err('gzip-wrong-size','gzip',g[:-1]+b'\1','decompress_checksum')
err('gzip-octets-after-it','gzip',g+b'junkjunkjunk','decompress_header')
err('gzip-reserved-flag','gzip',g[:3]+b'\x80'+g[4:],'decompress_header')
err('gzip-bad-block-type','gzip',g[:10]+b'\x07'+g[11:],'decompress_corrupt')
z=bytes.fromhex(T['zstd'])
err('zstd-wrong-checksum','zstd',z[:-1]+b'\0','decompress_checksum')
err('zstd-octets-after-it','zstd',z+b'junkjunkjunk','decompress_header')
err('zstd-dictionary','zstd',bytes.fromhex('28b52ffd')+bytes([0x21,0x07,23])+b'\x01\x00\x00','decompress_header')
v=bytes.fromhex(T['lz4'])
err('lz4-wrong-content-checksum','lz4',v[:-1]+b'\0','decompress_checksum')
err('lz4-wrong-descriptor-checksum','lz4',v[:6]+b'\0'+v[7:],'decompress_checksum')
err('lz4-octets-after-it','lz4',v+b'junk','decompress_header')
err('lz4-legacy-frame','lz4',struct.pack('<I',0x184c2102)+b'\1\0\0\0\0','decompress_header')
err('lz4-block-size-code-3','lz4',v[:5]+b'\x30'+v[6:],'decompress_header')
err('lz4-dictionary','lz4',v[:4]+b'\x65'+v[5:],'decompress_header')
err('lz4-block-longer-than-declared','lz4',bytes.fromhex('04224d186440a7')+struct.pack('<I',0x80010001)+b'four','decompress_corrupt')
s=bytes.fromhex(T['snappy'])
err('snappy-block-cut-inside','snappy',X+be(10)+s[20:30],'decompress_corrupt')
err('snappy-chunk-of-nothing','snappy',X+be(0),'decompress_truncated')
err('not-gzip','gzip',p,'decompress_header')
err('not-zstd','zstd',p+p,'decompress_header')
err('not-lz4','lz4',p,'decompress_header')
err('plain-dnstap-where-snappy-is-configured','snappy',p,'decompress_corrupt')
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'compressed.tsv'), 'w') as f:
    for r in rows: f.write('\t'.join(map(str,r))+'\n')
print(len(rows), sum(len(r[2]) for r in rows))
