//! One table of flows and keywords: options that match in a flow, and options that differ by one byte or one bound and do not.

/// A flow and the pairs of options for it.
pub struct Case {
    pub protocol: &'static str,
    pub is_tcp: bool,
    pub port: u16,
    pub turns: &'static [(bool, &'static [u8])],
    /// Options that match, and options that do not.
    pub options: &'static [(&'static str, &'static str)],
}

pub const CASES: [Case; 9] = [
    Case {
        // A content with a place may be in a packet of TCP, too: its alerts depend on the segments.
        protocol: "tcp-stream",
        is_tcp: true,
        port: 7_000,
        turns: &[(true, b"abc needle 12 \0\x05\x02YWJj= end"), (false, b"ok"), (true, b".")],
        options: &[
            (r#"content:"needle";"#, r#"content:"needlf";"#),
            (r#"content:"|6e 65 65|dle";"#, r#"content:"|6f 65 65|dle";"#),
            (r#"flow:to_server; content:!"needlf";"#, r#"flow:to_server; content:!"needle";"#),
            (r#"content:"NEEDLE"; nocase;"#, r#"content:"NEEDLE";"#),
            (r#"content:"needle"; depth:10;"#, r#"content:"needle"; depth:9;"#),
            (r#"content:"needle"; offset:4;"#, r#"content:"needle"; offset:5;"#),
            (r#"content:"needle"; offset:4; depth:6;"#, r#"content:"needle"; offset:3; depth:6;"#),
            (
                r#"content:"abc"; content:"needle"; distance:1;"#,
                r#"content:"abc"; content:"needle"; distance:2;"#,
            ),
            (
                r#"content:"needle"; content:"abc"; distance:-10;"#,
                r#"content:"needle"; content:"abc"; distance:-9;"#,
            ),
            (r#"content:"abc"; content:"needle"; within:7;"#, r#"content:"abc"; content:"needle"; within:6;"#),
            (r#"content:"abc"; startswith;"#, r#"content:"bc"; startswith;"#),
            (r#"content:"needle"; fast_pattern:1,3;"#, r#"content:"needlf"; fast_pattern:1,3;"#),
            (r#"content:"needle"; fast_pattern:only;"#, r#"content:"needlf"; fast_pattern:only;"#),
            (r#"content:"needle"; rawbytes;"#, r#"content:"needlf"; rawbytes;"#),
            (r#"pcre:"/n[e]{2}dle \d{2}/";"#, r#"pcre:"/n[e]{2}dle \d{3}/";"#),
            (r#"content:"needle"; pcre:"/^ 12/R";"#, r#"content:"needle"; pcre:"/^ 13/R";"#),
            (r#"content:"e"; pcre:"/^(d)le(?= )/R";"#, r#"content:"e"; pcre:"/^(d)le(?! )/R";"#),
            (
                r#"flow:to_server; content:"needle"; pcre:!"/needle 13/";"#,
                r#"flow:to_server; content:"needle"; pcre:!"/needle 12/";"#,
            ),
            (r#"content:"needle"; isdataat:4,relative;"#, r#"content:"needle"; isdataat:400,relative;"#),
            (r#"content:"abc"; isdataat:25;"#, r#"content:"abc"; isdataat:27;"#),
            (r#"content:"12 "; byte_test:1,=,5,1,relative;"#, r#"content:"12 "; byte_test:1,=,6,1,relative;"#),
            (
                r#"content:"needle "; byte_test:2,=,12,0,relative,string,dec;"#,
                r#"content:"needle "; byte_test:2,>,12,0,relative,string,dec;"#,
            ),
            (
                r#"content:"12 "; byte_jump:1,1,relative; content:"="; within:1;"#,
                r#"content:"12 "; byte_jump:1,1,relative; content:"j"; within:1;"#,
            ),
            (
                r#"content:"abc"; byte_extract:1,12,n,relative; content:"eedle"; offset:n; depth:5;"#,
                r#"content:"abc"; byte_extract:1,12,n,relative; content:"needle"; offset:n; depth:6;"#,
            ),
            (
                r#"content:"abc"; byte_math:bytes 1,offset 12,oper *,rvalue 4,result n,relative; content:"j"; offset:n; depth:1;"#,
                r#"content:"abc"; byte_math:bytes 1,offset 12,oper *,rvalue 3,result n,relative; content:"j"; offset:n; depth:1;"#,
            ),
            (
                r#"content:"|02|"; base64_decode:bytes 4,offset 0,relative; base64_data; content:"abc"; bsize:3;"#,
                r#"content:"|02|"; base64_decode:bytes 4,offset 0,relative; base64_data; content:"abc"; bsize:4;"#,
            ),
            (
                r#"flow:to_server; content:"needle"; entropy:value > 2;"#,
                r#"flow:to_server; content:"needle"; entropy:value > 7;"#,
            ),
            (r#"pkt_data; to_uppercase; content:"NEEDLE";"#, r#"pkt_data; to_uppercase; content:"needle";"#),
            (
                r#"pkt_data; strip_whitespace; content:"abcneedle";"#,
                r#"pkt_data; strip_whitespace; content:"abc needle";"#,
            ),
            (
                r#"pkt_data; pcrexform:"needle (\d+)"; content:"12"; startswith;"#,
                r#"pkt_data; pcrexform:"needle (\d+)"; content:"2"; startswith;"#,
            ),
            (r#"pkt_data; xor:"01"; content:"oddemd";"#, r#"pkt_data; xor:"02"; content:"oddemd";"#),
            (
                r#"flow:established,to_server; content:"needle";"#,
                r#"flow:established,to_client; content:"needle";"#,
            ),
            (r#"flow:to_client; content:"ok";"#, r#"flow:to_server; content:"ok";"#),
            (r#"flow:only_stream; content:"needle";"#, r#"flow:not_established; content:"needle";"#),
            (
                r#"content:"end"; stream_size:client,=,27;"#,
                r#"content:"end"; stream_size:client,=,28;"#,
            ),
            (
                r#"content:"needle"; flowbits:isnotset,never;"#,
                r#"content:"needle"; flowbits:set,never; flowbits:isset,other;"#,
            ),
            (r#"content:"needle"; flowint:n,notset;"#, r#"content:"needle"; flowint:n,isset;"#),
            (
                r#"content:"needle"; threshold: type limit, track by_flow, count 1, seconds 60;"#,
                r#"content:"needle"; threshold: type threshold, track by_flow, count 2, seconds 60;"#,
            ),
        ],
    },
    Case {
        protocol: "http",
        is_tcp: true,
        port: 80,
        turns: &[
            (
                true,
                b"POST /a%20b/Needle?q=1 HTTP/1.1\r\nHost: Www.Example.org:80\r\nUser-Agent: agent/1.0\r\nReferer: http://ref/\r\n\
                  Cookie: id=7\r\nAccept: text/*\r\nAccept-Encoding: gzip\r\nAccept-Language: de\r\nConnection: close\r\n\
                  Content-Type: text/plain\r\nContent-Length: 9\r\n\r\nbody text",
            ),
            (
                false,
                b"HTTP/1.1 404 Not Found\r\nServer: srv/2\r\nLocation: /there\r\nSet-Cookie: s=8\r\n\
                  Transfer-Encoding: chunked\r\n\r\n7\r\nanswer \r\n4\r\ntext\r\n0\r\n\r\n",
            ),
        ],
        options: &[
            (r#"http.method; content:"POST"; bsize:4;"#, r#"http.method; content:"POST"; bsize:>4;"#),
            (r#"http.uri; content:"/a b/Needle?q=1"; bsize:15;"#, r#"http.uri; content:"/a b/needle?q=1";"#),
            (r#"content:"Needle"; http_uri;"#, r#"content:"Needlf"; http_uri;"#),
            (r#"uricontent:"Needle";"#, r#"uricontent:"Needlf";"#),
            ("urilen:15;", "urilen:16;"),
            ("urilen:17,raw;", "urilen:15,raw;"),
            (r#"http.uri.raw; content:"a%20b";"#, r#"http.uri.raw; content:"a b";"#),
            (r#"http.host; content:"www.example.org"; bsize:15;"#, r#"http.host; content:"www.example.orh";"#),
            (r#"http.host.raw; content:"Www.Example.org";"#, r#"http.host.raw; content:"www.example.org";"#),
            (r#"http.user_agent; content:"agent/1.0"; bsize:9;"#, r#"http.user_agent; content:"agent/1.1";"#),
            (r#"http.referer; content:"http://ref/"; endswith;"#, r#"http.referer; content:"http://ref"; endswith;"#),
            (r#"http.cookie; content:"id=7";"#, r#"http.cookie; content:"id=8";"#),
            (r#"flow:to_client; http.cookie; content:"s=8";"#, r#"flow:to_client; http.cookie; content:"s=7";"#),
            (r#"http.accept; content:"text/*"; bsize:6;"#, r#"http.accept; content:"text/*"; bsize:7;"#),
            (r#"http.accept_enc; content:"gzip";"#, r#"http.accept_enc; content:"gziq";"#),
            (r#"http.accept_lang; content:"de";"#, r#"http.accept_lang; content:"df";"#),
            (r#"http.connection; content:"close";"#, r#"http.connection; content:"closf";"#),
            (r#"http.content_type; content:"text/plain";"#, r#"http.content_type; content:"text/plaim";"#),
            (r#"http.content_len; content:"9"; bsize:1;"#, r#"http.content_len; content:"8"; bsize:1;"#),
            (r#"http.header; content:"Referer: http";"#, r#"http.header; content:"Cookie: id";"#),
            (
                r#"flow:to_server; http.header.raw; content:"Accept: text/*|0d 0a|";"#,
                r#"flow:to_server; http.header.raw; content:"Accept: text/*|0a|";"#,
            ),
            (
                r#"http.header_names; content:"|0d 0a|Host|0d 0a|User-Agent|0d 0a|";"#,
                r#"http.header_names; content:"|0d 0a|Host|0d 0a|Referer|0d 0a|";"#,
            ),
            (r#"http.request_header; content:"Accept: text";"#, r#"http.request_header; content:"Server: srv";"#),
            (r#"http.response_header; content:"Server: srv";"#, r#"http.response_header; content:"Server: srw";"#),
            (
                r#"http.request_line; content:"POST /a%20b/Needle?q=1 HTTP/1.1";"#,
                r#"http.request_line; content:"POST /a%20b/Needle?q=1 HTTP/1.0";"#,
            ),
            (r#"http.response_line; content:"404 Not";"#, r#"http.response_line; content:"405 Not";"#),
            (r#"flow:to_server; http.start; content:"POST";"#, r#"flow:to_client; http.start; content:"POST";"#),
            (r#"flow:to_server; http.protocol; content:"HTTP/1.1";"#, r#"http.protocol; content:"HTTP/1.0";"#),
            (r#"http.stat_code; content:"404"; bsize:3;"#, r#"http.stat_code; content:"40"; bsize:2;"#),
            (r#"http.stat_msg; content:"Not Found";"#, r#"http.stat_msg; content:"Not found";"#),
            (r#"http.server; content:"srv/2";"#, r#"http.server; content:"srv/3";"#),
            (r#"http.location; content:"/there"; bsize:6;"#, r#"http.location; content:"/there"; bsize:7;"#),
            (r#"http.request_body; content:"body text"; bsize:9;"#, r#"http.request_body; content:"body text"; bsize:10;"#),
            (r#"http.response_body; content:"answer text"; bsize:11;"#, r#"http.response_body; content:"answer  text";"#),
            (r#"file.data; content:"answer text"; endswith;"#, r#"file.data; content:"answer tex"; endswith;"#),
            (r#"pcre:"/Need[l]e/U";"#, r#"pcre:"/need[l]e/U";"#),
            (
                r#"http.method; content:"POST"; http.stat_code; content:"404";"#,
                r#"http.method; content:"POST"; http.stat_code; content:"405";"#,
            ),
            (r#"flow:to_server; http.method; content:"POST"; app-layer-protocol:http;"#, r#"http.method; content:"POST"; app-layer-protocol:!http;"#),
            (
                r#"flow:to_server; http.user_agent; absent:or_else; content:"agent";"#,
                r#"flow:to_server; http.user_agent; absent;"#,
            ),
            (r#"http.user_agent; to_sha1; bsize:20;"#, r#"http.user_agent; to_sha1; bsize:21;"#),
            (r#"http.uri; url_decode; content:"a b";"#, r#"http.uri; url_decode; content:"a%20b";"#),
            (r#"http.host; dotprefix; content:".www.example.org";"#, r#"http.host; dotprefix; content:".example.com";"#),
            (r#"flow:to_client; filesize:11;"#, r#"flow:to_client; filesize:12;"#),
        ],
    },
    Case {
        protocol: "ftp",
        is_tcp: true,
        port: 21,
        turns: &[
            (false, b"220 hello\r\n"),
            (true, b"USER bob\r\n"),
            (false, b"331 password\r\n"),
            (true, b"CWD needle.bin\r\n"),
            (false, b"250 done\r\n"),
        ],
        options: &[
            (r#"ftp.command; content:"CWD"; bsize:3;"#, r#"ftp.command; content:"CWE"; bsize:3;"#),
            (r#"ftp.command_data; content:"needle.bin";"#, r#"ftp.command_data; content:"needle.bim";"#),
            (r#"ftp.reply; content:"password";"#, r#"ftp.reply; content:"passwore";"#),
            (r#"ftp.completion_code; content:"331";"#, r#"ftp.completion_code; content:"332";"#),
        ],
    },
    Case {
        protocol: "smtp",
        is_tcp: true,
        port: 25,
        turns: &[
            (false, b"220 mx.example ESMTP\r\n"),
            (true, b"HELO me.example\r\n"),
            (false, b"250 mx.example\r\n"),
            (true, b"MAIL FROM:<ann@a.example>\r\n"),
            (false, b"250 ok\r\n"),
            (true, b"RCPT TO:<bob@b.example>\r\n"),
            (false, b"250 ok\r\n"),
            (true, b"DATA\r\n"),
            (false, b"354 go on\r\n"),
            (true, b"From: ann@a.example\r\nTo: bob@b.example\r\nSubject: a needle\r\nX-Mailer: post/1\r\n\r\nhay, and more of it\r\n.\r\n"),
            (false, b"250 taken\r\n"),
        ],
        options: &[
            (r#"smtp.helo; content:"me.example"; bsize:10;"#, r#"smtp.helo; content:"me.example"; bsize:11;"#),
            (r#"smtp.mail_from; content:"ann@a.example";"#, r#"smtp.mail_from; content:"anm@a.example";"#),
            (r#"smtp.rcpt_to; content:"bob@b.example";"#, r#"smtp.rcpt_to; content:"ann@a.example";"#),
            (r#"email.from; content:"ann@a.example";"#, r#"email.from; content:"bob@b.example";"#),
            (r#"email.to; content:"bob@b.example";"#, r#"email.to; content:"bob@c.example";"#),
            (r#"email.subject; content:"a needle"; bsize:8;"#, r#"email.subject; content:"a needlf"; bsize:8;"#),
            (r#"email.x_mailer; content:"post/1";"#, r#"email.x_mailer; content:"post/2";"#),
            (r#"file.data; content:"hay, and";"#, r#"file.data; content:"hay. and";"#),
        ],
    },
    Case {
        protocol: "ssh",
        is_tcp: true,
        port: 22,
        turns: &[(false, b"SSH-2.0-needle_9\r\n"), (true, b"SSH-2.0-client_1\r\n")],
        options: &[
            (r#"flow:to_client; ssh.proto; content:"2.0"; bsize:3;"#, r#"ssh.proto; content:"1.0";"#),
            (r#"ssh.software; content:"needle_9";"#, r#"ssh.software; content:"needle_8";"#),
        ],
    },
    Case {
        protocol: "dns",
        is_tcp: true,
        port: 53,
        turns: &[
            (true, b"\0\x20\0\x07\x01\0\0\x01\0\0\0\0\0\0\x06needle\x07example\0\0\x10\0\x01"),
            (false, b"\0\x20\0\x07\x81\x83\0\x01\0\0\0\0\0\0\x06needle\x07example\0\0\x10\0\x01"),
        ],
        options: DNS,
    },
    Case {
        protocol: "dns",
        is_tcp: false,
        port: 53,
        turns: &[
            (true, b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\x06needle\x07example\0\0\x10\0\x01"),
            (false, b"\0\x07\x81\x83\0\x01\0\0\0\0\0\0\x06needle\x07example\0\0\x10\0\x01"),
        ],
        options: DNS,
    },
    Case {
        protocol: "udp",
        is_tcp: false,
        port: 7_001,
        turns: &[(true, b"abc needle 12"), (false, b"ok")],
        options: &[
            (r#"content:"needle";"#, r#"content:"needlf";"#),
            (r#"flow:to_server; dsize:13;"#, r#"flow:to_server; dsize:12;"#),
            (r#"content:"ok"; endswith; dsize:<3;"#, r#"content:"ok"; endswith; dsize:<2;"#),
            (r#"content:"12"; isdataat:!1,relative;"#, r#"content:"12"; isdataat:1,relative;"#),
            (r#"flow:to_server; udp.hdr; content:"|1b 59|"; offset:2; depth:2;"#, r#"udp.hdr; content:"|1b 5a|"; offset:2; depth:2;"#),
            (r#"flow:to_server; ttl:64;"#, "ttl:63;"),
            (r#"flow:established; content:"ok";"#, r#"flow:established; content:"needle";"#),
        ],
    },
    Case {
        protocol: "sip",
        is_tcp: false,
        port: 5_060,
        turns: &[
            (
                true,
                b"INVITE sip:bob@b.example SIP/2.0\r\nVia: SIP/2.0/UDP a.example\r\nFrom: <sip:ann@a.example>\r\nTo: <sip:bob@b.example>\r\n\
                  Call-ID: 1\r\nCSeq: 1 INVITE\r\nUser-Agent: phone/1\r\nContent-Length: 0\r\n\r\n",
            ),
            (
                false,
                b"SIP/2.0 180 Ringing\r\nVia: SIP/2.0/UDP a.example\r\nFrom: <sip:ann@a.example>\r\nTo: <sip:bob@b.example>\r\n\
                  Call-ID: 1\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n",
            ),
        ],
        options: &[
            (r#"sip.method; content:"INVITE"; bsize:6;"#, r#"sip.method; content:"INVITF"; bsize:6;"#),
            (r#"sip.uri; content:"bob@b.example";"#, r#"sip.uri; content:"ann@a.example";"#),
            (r#"sip.user_agent; content:"phone/1";"#, r#"sip.user_agent; content:"phone/2";"#),
            (r#"sip.stat_code; content:"180";"#, r#"sip.stat_code; content:"181";"#),
            (r#"sip.stat_msg; content:"Ringing"; bsize:7;"#, r#"sip.stat_msg; content:"Ringing"; bsize:8;"#),
        ],
    },
];

/// The options for a question and its answer.
const DNS: &[(&str, &str)] = &[
    (
        r#"dns.query; content:"needle.example"; bsize:14;"#,
        r#"dns.query; content:"needle.example"; bsize:15;"#,
    ),
    (
        r#"dns.query; dotprefix; content:".example"; endswith;"#,
        r#"dns.query; dotprefix; content:".needl"; endswith;"#,
    ),
    (r#"flow:to_client; dns.queries.rrname; content:"needle";"#, r#"dns.queries.rrname; content:"needlf";"#),
    (r#"flow:to_client; dns.rcode:3;"#, "dns.rcode:2;"),
    (r#"flow:to_server; dns.rrtype:16;"#, "dns.rrtype:17;"),
    (r#"flow:to_server; dns.opcode:0;"#, "dns.opcode:1;"),
];

/// The rules of all cases. The pair at a place of all pairs has the sids twice the place plus one, and plus two.
pub fn rules() -> String {
    let pairs = CASES.iter().flat_map(|case| case.options.iter().map(|pair| (case.protocol, pair)));
    let rule = |(place, (protocol, (hit, miss))): (usize, (&str, &(&str, &str)))| {
        let (one, two) = (2 * place + 1, 2 * place + 2);
        format!(
            "alert {protocol} any any -> any any ({hit} sid:{one};)\nalert {protocol} any any -> any any ({miss} sid:{two};)\n"
        )
    };
    pairs.enumerate().map(rule).collect()
}
