"""Reads DNS messages with dnspython and compares with what tapflow read from them.

Standard input: one JSON object a line, {"id", "wire" (hex), "ours"}, where "ours" is what tests/dns_dnspython.rs says
tapflow found. Standard output: one JSON object for each difference, {"id", "what", "theirs", "ours"}, then the count of
messages that both read. A difference in record data is one of octets: tapflow's text is read back by dnspython and
compared with the data that dnspython itself took from the message.
"""

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
import dns.update

SECTIONS = ("answer", "authority", "additional")



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
            "options": [[int(o.otype), o.to_wire().hex()] for o in theirs.options],
        }
    if edns != ours["edns"]:
        yield "edns", edns, ours["edns"]
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
    compared = unread = 0
    for line in sys.stdin:
        case = json.loads(line)
        wire, ours = bytes.fromhex(case["wire"]), case["ours"]
        try:
            theirs = dns.message.from_wire(wire, one_rr_per_rrset=True, keyring=False)
        except Exception as error:
            # Neither is a reading of the message: a verdict on a signature, for which dnspython 2.3 wants no key ring
            # to be asked, and an opcode that this version has no name for.
            if type(error).__module__ == "dns.tsig" or "valid Opcode" in str(error):
                unread += 1
                continue
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
    print(unread, "messages not read: signatures and opcodes unknown to dnspython", file=sys.stderr)


main()
