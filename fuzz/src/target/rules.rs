use super::Digest;
use crate::{Target, seeds};
use weir_detect::{
    Lists, Memory, NoSources, Reading, RuleFile, Ruleset, Test, Transform, Variables, Verdict, parse_rule,
    verify,
};

pub const TARGET: Target = Target {
    name: "rules",
    about: "a rule, a newline, and the bytes of a buffer: read alone and in a file; each of its buffers changed and verified",
    seeds: seeds::rules,
    words: &[
        b"content:\"",
        b"|00|",
        b"; nocase;",
        b"; distance:-1;",
        b"; within:1;",
        b"; offset:",
        b"; depth:",
        b"; endswith;",
        b"pcre:\"/",
        b"/R\";",
        b"byte_jump:4,0,relative,",
        b"byte_test:2,>,1,0,",
        b"byte_extract:1,0,a;",
        b"byte_math:bytes 1,offset 0,oper *,rvalue a,result b;",
        b"multiplier 65535",
        b"post_offset -65535",
        b"isdataat:!1,relative;",
        b"base64_decode:relative; base64_data;",
        b"asn1:bitstring_overflow,relative_offset 1;",
        b"from_base64:",
        b"gunzip;",
        b"xor:\"ff\";",
        b"[!10.0.0.0/8,$HOME_NET]",
        b"[1:,!80]",
        b"flowbits:set,a;",
        b"flags:S,12;",
        b"sid:4294967295;",
        b"\\",
        b" <> ",
    ],
    run,
};

fn run(input: &[u8]) -> u64 {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (text, bytes) = input.split_at(end);
    let mut digest = Digest::default();
    match parse_rule(text, "x.rules", &mut Lists::default(), &NoSources) {
        Ok(parsed) => {
            let rule = parsed.rule;
            let mut memory = Memory::default();
            memory.begin(rule.variables.len());
            let decoded = rule.buffers.iter().find(|of| of.buffer.name == "base64_data");
            for of in &rule.buffers {
                digest.add(3 + of.tests.len() as u64);
                digest.size(of.buffer.name.len() as u64);
                let changed = Transform::all(&of.transforms, bytes);
                let verdict = verify(of, &changed, decoded, &mut memory);
                digest.add(verdict as u64);
                // One literal alone is there, or it is not.
                if let [Test::Content(content)] = of.tests.as_slice()
                    && !content.ignores_case
                    && verdict == Verdict::Yes
                {
                    let is_there = changed.windows(content.bytes.len()).any(|part| part == &*content.bytes);
                    assert!(is_there || content.is_negated, "{}", String::from_utf8_lossy(text));
                }
            }
        }
        Err(fault) => {
            assert!(fault.at <= text.len() && !fault.reason.is_empty());
            // Names in reasons would make each input a new outcome.
            digest.size(fault.reason.len() as u64);
        }
    }
    let reading = Reading { variables: Variables::default(), sources: &NoSources, with_switched_off: true };
    let set = Ruleset::read([RuleFile { name: "x.rules", bytes: input }], &reading);
    digest.size(set.offered() as u64);
    assert!(set.refusals.iter().all(|refusal| refusal.origin.line >= 1 && refusal.origin.column >= 1));
    digest.0
}
