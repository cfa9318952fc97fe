"""Reads DNS messages with dnspython and compares with what tapflow read from them.

Standard input: one JSON object a line, {"id", "wire" (hex), "ours"}, where "ours" is what tests/dns_dnspython.rs says
tapflow found. Standard output: one JSON object for each difference, {"id", "what", "theirs", "ours"}, then the count of
messages that both read. A difference in record data is one of octets: tapflow's text is read back by dnspython and
compared with the data that dnspython itself took from the message.
"""

import ipaddress
import json
import sys

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rdata
import dns.rdataclass
import dns.rdatatype
import dns.tsig
import dns.update

SECTIONS = ("answer", "authority", "additional")

# Signatures are read as the other records are; whether they are right is not asked.
dns.tsig.validate = lambda *_: None


def read(wire):
    """The message, whatever its opcode: some that dnspython has no name for end its reading."""
    try:
        return dns.message.from_wire(wire, one_rr_per_rrset=True, keyring=lambda *_: "any")
    except Exception as error:
        if "valid Opcode" not in str(error):
            raise
    plain = bytes([wire[0], wire[1], wire[2] & 0x87]) + wire[3:]
    message = dns.message.from_wire(plain, one_rr_per_rrset=True, keyring=lambda *_: "any")
    message.flags |= (wire[2] & 0x78) << 8
    return message


def meaning(option):
    """What an option means, as tests/dns_dnspython.rs writes it."""
    code = int(option.otype)
    if code == 8 and isinstance(option, dns.edns.ECSOption):
        return [str(ipaddress.ip_address(option.address)), option.srclen, option.scopelen]
    if code == 15 and hasattr(option, "text"):
        return [int(option.code), (option.text or "").encode().hex()]
    if code == 10:
        data = option.to_wire()
        return [data[:8].hex(), data[8:].hex()]
    return None


def differences(theirs, ours):
    """Yields (what, theirs, ours) for each field that is not the same."""
    header = {
        "mid": theirs.id,
        "flags": theirs.flags,
        "rcode": int(theirs.rcode()),
    }
    for key, value in header.items():
        if ours[key] != value:
            yield key, value, ours[key]
    questions = [
        [rrset.name.to_wire().hex(), int(rrset.rdtype), int(rrset.rdclass)]
        for rrset in theirs.question
    ]
    if questions != ours["questions"]:
        yield "questions", questions, ours["questions"]
    edns = None
    if theirs.edns >= 0:
        edns = {
            "version": theirs.edns,
            "flags": theirs.ednsflags & 0xFFFF,
            "size": theirs.payload,
            "options": [[int(o.otype), o.to_wire().hex(), meaning(o)] for o in theirs.options],
        }
    if edns != ours["edns"]:
        yield "edns", edns, ours["edns"]
    signature = None
    if theirs.tsig:
        signature = [theirs.tsig.name.to_wire().hex(), theirs.tsig[0].to_wire().hex()]
    if signature != ours["signature"]:
        yield "signature", signature, ours["signature"]
    for section in SECTIONS:
        records = [
            (rrset, rdata)
            for rrset in getattr(theirs, section)
            for rdata in (rrset if len(rrset) else [None])
        ]
        mine = ours[section]
        if len(records) != len(mine):
            yield section + " count", len(records), len(mine)
            continue
        for (rrset, rdata), record in zip(records, mine):
            yield from record_differences(rrset, rdata, record)


def record_differences(rrset, rdata, ours):
    rdclass = rrset.deleting or rrset.rdclass
    fields = {
        "owner": rrset.name.to_wire().hex(),
        "type": int(rrset.rdtype),
        "class": int(rdclass),
        "ttl": rrset.ttl,
    }
    for key, value in fields.items():
        if ours[key] != value:
            yield key, value, ours[key]
    if rdata is None:
        if ours["data"] != "":
            yield "data of an empty record", None, ours["data"]
        return
    try:
        back = dns.rdata.from_text(rdata.rdclass, rdata.rdtype, ours["data"], relativize=False)
    except Exception as error:  # what dnspython cannot read back is the finding
        yield "data does not read back: %s" % error, rdata.to_text(), ours["data"]
        return
    if back.to_wire() != rdata.to_wire():
        yield "data", rdata.to_text(), ours["data"]


def main():
    compared = 0
    for line in sys.stdin:
        case = json.loads(line)
        wire, ours = bytes.fromhex(case["wire"]), case["ours"]
        try:
            theirs = read(wire)
        except Exception as error:
            name = type(error).__name__
            if ours["malformed"] is None:
                print(json.dumps({"id": case["id"], "what": "refused: " + name, "theirs": str(error), "ours": None}))
            continue
        if ours["malformed"] is not None:
            print(json.dumps({"id": case["id"], "what": "only we refuse: " + ours["malformed"], "theirs": None, "ours": None}))
            continue
        compared += 1
        for what, a, b in differences(theirs, ours):
            print(json.dumps({"id": case["id"], "what": what, "theirs": a, "ours": b}, default=str))
    print(compared)


main()
