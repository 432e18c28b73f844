//! The buffers that rules search: one row each, from which their keywords are made.

/// Which side's data a buffer has.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Sides {
    /// The initiator's.
    ToServer,
    /// The responder's.
    ToClient,
    /// Either.
    Both,
}

/// Where the bytes of a buffer come from.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Origin {
    /// The payload of a packet, or the stream.
    Payload,
    /// The header of a packet.
    Header,
    /// A message of an application protocol.
    Transaction,
    /// What `base64_decode` decoded.
    Decoded,
}

/// A buffer.
#[derive(Debug)]
pub struct RuleBuffer {
    /// Its name, which is its keyword.
    pub name: &'static str,
    /// Older keywords with this meaning.
    pub old_names: &'static [&'static str],
    /// The keyword of the old manner, which stands after a content and moves it to this buffer.
    pub modifier: Option<&'static str>,
    /// One line for the manual.
    pub help: &'static str,
    /// The protocols that have it, by Weir's names. Empty: it is of packets or streams.
    pub protocols: &'static [&'static str],
    /// Which side has it.
    pub sides: Sides,
    /// Whether a message may have several. Each use of the keyword is about one of them.
    pub is_multiple: bool,
    /// Whether its letters are lower case.
    pub is_lower: bool,
    /// Where it comes from.
    pub origin: Origin,
}

impl Eq for RuleBuffer {}

impl PartialEq for RuleBuffer {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl RuleBuffer {
    pub(crate) const fn of(
        name: &'static str,
        protocols: &'static [&'static str],
        sides: Sides,
        help: &'static str,
    ) -> Self {
        Self {
            name,
            old_names: &[],
            modifier: None,
            help,
            protocols,
            sides,
            is_multiple: false,
            is_lower: false,
            origin: Origin::Transaction,
        }
    }

    pub(crate) const fn old(self, old_names: &'static [&'static str]) -> Self {
        Self { old_names, ..self }
    }

    const fn after_content(self, modifier: &'static str) -> Self {
        Self { modifier: Some(modifier), ..self }
    }

    pub(crate) const fn multiple(self) -> Self {
        Self { is_multiple: true, ..self }
    }

    const fn lower(self) -> Self {
        Self { is_lower: true, ..self }
    }

    const fn from(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }
}

/// The buffer of a keyword.
pub fn buffer(name: &str) -> Option<&'static RuleBuffer> {
    BUFFERS.iter().find(|buffer| buffer.name == name || buffer.old_names.contains(&name))
}

use Origin::{Decoded, Header, Payload};
use Sides::{Both, ToClient, ToServer};

const HTTP: &[&str] = &["http"];
const TLS: &[&str] = &["tls", "quic"];
const FILES: &[&str] = &["http", "smtp", "ftp_data", "smb", "nfs", "imap", "pop3"];
const DNS: &[&str] = &["dns"];
const MAIL: &[&str] = &["smtp", "imap", "pop3"];
const SIP: &[&str] = &["sip"];
const SNMP: &[&str] = &["snmp"];
const MQTT: &[&str] = &["mqtt"];
const SSH: &[&str] = &["ssh"];
const LDAP: &[&str] = &["ldap"];
const DCE: &[&str] = &["dce_rpc", "smb"];

/// The version in a hello of TLS, a number that `tls.version` and `ssl_version` test.
pub(crate) static TLS_VERSION: RuleBuffer =
    RuleBuffer::of("tls.version", &["tls"], Both, "Version in a hello.").multiple();

/// The type of a message of a handshake of TLS, a number that `ssl_state` tests.
pub(crate) static TLS_STATE: RuleBuffer =
    RuleBuffer::of("tls.state", &["tls"], Both, "Type of a hello or key exchange.").multiple();

/// The interface of a call of DCE/RPC: the bytes of its UUID and of its higher version number, which `dcerpc.iface` tests.
pub(crate) static DCE_IFACE: RuleBuffer =
    RuleBuffer::of("dcerpc.iface", DCE, Both, "Interface of a call of DCE/RPC.").multiple();

/// The number of an operation of DCE/RPC, which `dcerpc.opnum` tests.
pub(crate) static DCE_OPNUM: RuleBuffer =
    RuleBuffer::of("dcerpc.opnum", DCE, Both, "Operation of a call of DCE/RPC.").multiple();

/// The size of a file that has ended, a number that `filesize` tests.
pub(crate) static FILE_SIZE: RuleBuffer =
    RuleBuffer::of("file.size", FILES, Both, "Size of a file that has ended.");

/// The least size of a file, a number that `filesize` tests: also one that was cut off may exceed a number.
pub(crate) static FILE_MIN_SIZE: RuleBuffer =
    RuleBuffer::of("file.least_size", FILES, Both, "Bytes of a file that were received.");

/// The checksums of a file, in lower-case hexadecimal digits, which `filemd5`, `filesha1` and `filesha256` look up.
pub(crate) static FILE_MD5: RuleBuffer = RuleBuffer::of("file.md5", FILES, Both, "MD5 of a file.");
pub(crate) static FILE_SHA1: RuleBuffer = RuleBuffer::of("file.sha1", FILES, Both, "SHA-1 of a file.");
pub(crate) static FILE_SHA256: RuleBuffer = RuleBuffer::of("file.sha256", FILES, Both, "SHA-256 of a file.");

/// The payload of packets and streams: the buffer of contents that name none.
pub static PAYLOAD: &RuleBuffer = &BUFFERS[0];

/// All buffers, the payload first.
pub static BUFFERS: &[RuleBuffer] = &[
    RuleBuffer::of("pkt_data", &[], Both, "Payload of packets and streams.").from(Payload),
    RuleBuffer::of("base64_data", &[], Both, "What base64_decode decoded.").from(Decoded),
    // Headers of packets.
    RuleBuffer::of("ether.hdr", &[], Both, "Ethernet header, without tags: 14 bytes.").from(Header),
    RuleBuffer::of("ipv4.hdr", &[], Both, "IPv4 header.").from(Header),
    RuleBuffer::of("ipv6.hdr", &[], Both, "IPv6 header.").from(Header),
    RuleBuffer::of("tcp.hdr", &[], Both, "TCP header.").from(Header),
    RuleBuffer::of("udp.hdr", &[], Both, "UDP header.").from(Header),
    RuleBuffer::of("icmpv4.hdr", &[], Both, "ICMP header.").from(Header),
    RuleBuffer::of("icmpv6.hdr", &[], Both, "ICMPv6 header.").from(Header),
    RuleBuffer::of("ip.src", &[], Both, "Source address, 4 or 16 bytes.").from(Header),
    RuleBuffer::of("ip.dst", &[], Both, "Destination address, 4 or 16 bytes.").from(Header),
    // HTTP/1.
    RuleBuffer::of("http.uri", HTTP, ToServer, "URI of a request, normalised.").after_content("http_uri"),
    RuleBuffer::of("http.uri.raw", HTTP, ToServer, "URI of a request, as sent.")
        .after_content("http_raw_uri"),
    RuleBuffer::of("http.method", HTTP, ToServer, "Method of a request.").after_content("http_method"),
    RuleBuffer::of("http.host", HTTP, ToServer, "Host of a request, in lower case, without its port.")
        .after_content("http_host")
        .lower(),
    RuleBuffer::of("http.host.raw", HTTP, ToServer, "Host of a request, as sent.")
        .after_content("http_raw_host"),
    RuleBuffer::of("http.header", HTTP, Both, "Headers without cookies, normalised.")
        .after_content("http_header"),
    RuleBuffer::of("http.header.raw", HTTP, Both, "Headers, as sent.").after_content("http_raw_header"),
    RuleBuffer::of("http.header_names", HTTP, Both, "Names of headers, each between CRLF.")
        .old(&["http_header_names"]),
    RuleBuffer::of("http.cookie", HTTP, Both, "Cookie of a request, Set-Cookie of a response.")
        .after_content("http_cookie"),
    RuleBuffer::of("http.user_agent", HTTP, ToServer, "User-Agent header.").after_content("http_user_agent"),
    RuleBuffer::of("http.referer", HTTP, ToServer, "Referer header.").old(&["http_referer"]),
    RuleBuffer::of("http.accept", HTTP, ToServer, "Accept header.").old(&["http_accept"]),
    RuleBuffer::of("http.accept_enc", HTTP, ToServer, "Accept-Encoding header.").old(&["http_accept_enc"]),
    RuleBuffer::of("http.accept_lang", HTTP, ToServer, "Accept-Language header.").old(&["http_accept_lang"]),
    RuleBuffer::of("http.connection", HTTP, Both, "Connection header.").old(&["http_connection"]),
    RuleBuffer::of("http.content_len", HTTP, Both, "Content-Length header.").old(&["http_content_len"]),
    RuleBuffer::of("http.content_type", HTTP, Both, "Content-Type header.").old(&["http_content_type"]),
    RuleBuffer::of("http.location", HTTP, ToClient, "Location header."),
    RuleBuffer::of("http.server", HTTP, ToClient, "Server header."),
    RuleBuffer::of("http.protocol", HTTP, Both, "Protocol and version in a start line.")
        .old(&["http_protocol"]),
    RuleBuffer::of("http.start", HTTP, Both, "Start line and headers.").old(&["http_start"]),
    RuleBuffer::of("http.request_line", HTTP, ToServer, "First line of a request.")
        .old(&["http_request_line"]),
    RuleBuffer::of("http.response_line", HTTP, ToClient, "First line of a response.")
        .old(&["http_response_line"]),
    RuleBuffer::of("http.request_header", HTTP, ToServer, "A header of a request.").multiple(),
    RuleBuffer::of("http.response_header", HTTP, ToClient, "A header of a response.").multiple(),
    RuleBuffer::of("http.stat_code", HTTP, ToClient, "Status code.").after_content("http_stat_code"),
    RuleBuffer::of("http.stat_msg", HTTP, ToClient, "Reason phrase.").after_content("http_stat_msg"),
    RuleBuffer::of("http.request_body", HTTP, ToServer, "Body of a request, decoded.")
        .after_content("http_client_body"),
    RuleBuffer::of("http.response_body", HTTP, ToClient, "Body of a response, decoded."),
    // Files.
    RuleBuffer::of("file.data", FILES, Both, "Content of files: bodies, attachments, transfers.")
        .old(&["file_data"])
        .after_content("http_server_body"),
    RuleBuffer::of("file.name", FILES, Both, "Name of a file.").multiple(),
    RuleBuffer::of("file.magic", FILES, Both, "Kind of a file, by its content.").multiple(),
    // DNS.
    RuleBuffer::of("dns.query", DNS, ToServer, "Name of a question.").old(&["dns_query"]).multiple(),
    RuleBuffer::of("dns.queries.rrname", DNS, Both, "Name of a question, in a request or response.")
        .old(&["dns.query.name"])
        .multiple(),
    RuleBuffer::of("dns.answers.rrname", DNS, Both, "Name of an answer, or of what an update requires.")
        .old(&["dns.answer.name"])
        .multiple(),
    RuleBuffer::of("dns.authorities.rrname", DNS, ToClient, "Name of an authority record.").multiple(),
    RuleBuffer::of("dns.additionals.rrname", DNS, ToClient, "Name of an additional record.").multiple(),
    RuleBuffer::of("dns.response.rrname", DNS, ToClient, "Any name or name in data of a response.")
        .multiple(),
    RuleBuffer::of("mdns.queries.rrname", &["mdns"], Both, "Name of a question of multicast DNS.").multiple(),
    RuleBuffer::of("mdns.answers.rrname", &["mdns"], Both, "Name of an answer of multicast DNS.").multiple(),
    RuleBuffer::of(
        "mdns.authorities.rrname",
        &["mdns"],
        Both,
        "Name of an authority record of multicast DNS.",
    )
    .multiple(),
    RuleBuffer::of(
        "mdns.additionals.rrname",
        &["mdns"],
        Both,
        "Name of an additional record of multicast DNS.",
    )
    .multiple(),
    RuleBuffer::of("mdns.response.rrname", &["mdns"], Both, "Any name of a response of multicast DNS.")
        .multiple(),
    RuleBuffer::of("llmnr.queries.rrname", &["llmnr"], Both, "Name of a question of LLMNR.").multiple(),
    RuleBuffer::of("llmnr.answers.rrname", &["llmnr"], Both, "Name of an answer of LLMNR.").multiple(),
    RuleBuffer::of("llmnr.authorities.rrname", &["llmnr"], Both, "Name of an authority record of LLMNR.")
        .multiple(),
    RuleBuffer::of("llmnr.additionals.rrname", &["llmnr"], Both, "Name of an additional record of LLMNR.")
        .multiple(),
    RuleBuffer::of("llmnr.response.rrname", &["llmnr"], Both, "Any name of a response of LLMNR.").multiple(),
    // TLS.
    RuleBuffer::of("tls.sni", TLS, ToServer, "Server name that a client requests.").old(&["tls_sni"]),
    RuleBuffer::of("tls.alpn", TLS, Both, "An application protocol that is offered or chosen.").multiple(),
    RuleBuffer::of("tls.certs", &["tls"], Both, "A certificate (DER).").multiple(),
    RuleBuffer::of("tls.cert_subject", &["tls"], Both, "Subject of the certificate.")
        .old(&["tls_cert_subject"]),
    RuleBuffer::of("tls.cert_issuer", &["tls"], Both, "Issuer of the certificate.").old(&["tls_cert_issuer"]),
    RuleBuffer::of("tls.cert_serial", &["tls"], Both, "Serial number of the certificate: 01:A2:...")
        .old(&["tls_cert_serial"]),
    RuleBuffer::of("tls.cert_fingerprint", &["tls"], Both, "SHA-1 of the certificate: 01:a2:...")
        .old(&["tls_cert_fingerprint"])
        .lower(),
    RuleBuffer::of("tls.subjectaltname", &["tls"], Both, "An alternative name of the certificate.")
        .multiple(),
    RuleBuffer::of("tls.random", &["tls"], Both, "The random bytes of a hello, all 32."),
    RuleBuffer::of("tls.random_time", &["tls"], Both, "The first 4 of the random bytes of a hello."),
    RuleBuffer::of("tls.random_bytes", &["tls"], Both, "The last 28 of the random bytes of a hello."),
    RuleBuffer::of("ja3.hash", TLS, ToServer, "JA3 of a client, in lower case.").old(&["ja3_hash"]).lower(),
    RuleBuffer::of("ja3.string", TLS, ToServer, "The text that JA3 hashes.").old(&["ja3_string"]),
    RuleBuffer::of("ja3s.hash", TLS, ToClient, "JA3S of a server, in lower case.").lower(),
    RuleBuffer::of("ja3s.string", TLS, ToClient, "The text that JA3S hashes."),
    RuleBuffer::of("ja4.hash", TLS, ToServer, "JA4 of a client, in lower case.").lower(),
    RuleBuffer::of("quic.sni", &["quic"], ToServer, "Server name in a QUIC handshake."),
    RuleBuffer::of("quic.ua", &["quic"], ToServer, "User agent in a QUIC handshake."),
    RuleBuffer::of("quic.version", &["quic"], Both, "Version of QUIC, as text."),
    // NTP.
    RuleBuffer::of("ntp.reference_id", &["ntp"], Both, "Reference identifier, 4 bytes."),
    // SSH.
    RuleBuffer::of("ssh.proto", SSH, Both, "Version of the protocol in a banner.").old(&["ssh_proto"]),
    RuleBuffer::of("ssh.software", SSH, Both, "Software in a banner.").old(&["ssh_software"]),
    RuleBuffer::of("ssh.hassh", SSH, ToServer, "HASSH of a client.").old(&["ssh_hassh"]).lower(),
    RuleBuffer::of("ssh.hassh.string", SSH, ToServer, "The text that HASSH hashes.")
        .old(&["ssh_hassh_string"]),
    RuleBuffer::of("ssh.hassh.server", SSH, ToClient, "HASSH of a server.")
        .old(&["ssh_hassh_server"])
        .lower(),
    RuleBuffer::of("ssh.hassh.server.string", SSH, ToClient, "The text that HASSH of a server hashes."),
    // Mail.
    RuleBuffer::of("smtp.helo", &["smtp"], ToServer, "Name by which a client introduces itself."),
    RuleBuffer::of("smtp.mail_from", &["smtp"], ToServer, "Sender in MAIL FROM."),
    RuleBuffer::of("smtp.rcpt_to", &["smtp"], ToServer, "A receiver in RCPT TO.").multiple(),
    RuleBuffer::of("email.from", MAIL, Both, "From header."),
    RuleBuffer::of("email.to", MAIL, Both, "To header."),
    RuleBuffer::of("email.cc", MAIL, Both, "Cc header."),
    RuleBuffer::of("email.subject", MAIL, Both, "Subject header."),
    RuleBuffer::of("email.date", MAIL, Both, "Date header."),
    RuleBuffer::of("email.message_id", MAIL, Both, "Message-ID header."),
    RuleBuffer::of("email.x_mailer", MAIL, Both, "X-Mailer header."),
    RuleBuffer::of("email.url", MAIL, Both, "A URL in the text.").multiple(),
    RuleBuffer::of("email.received", MAIL, Both, "A Received header.").multiple(),
    RuleBuffer::of("email.body_md5", MAIL, Both, "MD5 of the body."),
    // FTP and SMB.
    RuleBuffer::of("ftp.command", &["ftp"], ToServer, "A command, without its argument."),
    RuleBuffer::of("ftp.command_data", &["ftp"], ToServer, "The argument of a command."),
    RuleBuffer::of("ftp.reply", &["ftp"], ToClient, "A line of a reply.").multiple(),
    RuleBuffer::of("ftp.completion_code", &["ftp"], ToClient, "The code of a reply.").multiple(),
    RuleBuffer::of("smb.named_pipe", &["smb"], Both, "Name of a pipe.").old(&["smb_named_pipe"]),
    RuleBuffer::of("smb.share", &["smb"], Both, "Name of a share.").old(&["smb_share"]),
    RuleBuffer::of("smb.ntlmssp_user", &["smb"], ToServer, "User that logs in by NTLM."),
    RuleBuffer::of("smb.ntlmssp_domain", &["smb"], ToServer, "Domain of the user that logs in by NTLM."),
    RuleBuffer::of("dcerpc.stub_data", DCE, Both, "Data of a call of DCE/RPC, or of its response.")
        .old(&["dce_stub_data"]),
    // SIP and SDP.
    RuleBuffer::of("sip.method", SIP, ToServer, "Method of a request."),
    RuleBuffer::of("sip.uri", SIP, ToServer, "URI of a request."),
    RuleBuffer::of("sip.request_line", SIP, ToServer, "First line of a request."),
    RuleBuffer::of("sip.stat_code", SIP, ToClient, "Status code."),
    RuleBuffer::of("sip.stat_msg", SIP, ToClient, "Reason phrase."),
    RuleBuffer::of("sip.response_line", SIP, ToClient, "First line of a response."),
    RuleBuffer::of("sip.protocol", SIP, Both, "Protocol in a first line."),
    RuleBuffer::of("sip.from", SIP, Both, "From header."),
    RuleBuffer::of("sip.to", SIP, Both, "To header."),
    RuleBuffer::of("sip.via", SIP, Both, "Via header."),
    RuleBuffer::of("sip.user_agent", SIP, Both, "User-Agent header."),
    RuleBuffer::of("sip.content_type", SIP, Both, "Content-Type header."),
    RuleBuffer::of("sip.content_length", SIP, Both, "Content-Length header."),
    RuleBuffer::of("sdp.origin", SIP, Both, "Origin of a session (o=)."),
    RuleBuffer::of("sdp.session_name", SIP, Both, "Name of a session (s=)."),
    RuleBuffer::of("sdp.session_info", SIP, Both, "Title of a session (i=)."),
    RuleBuffer::of("sdp.uri", SIP, Both, "URI about a session (u=)."),
    RuleBuffer::of("sdp.email", SIP, Both, "Mail address of a session (e=)."),
    RuleBuffer::of("sdp.phone_number", SIP, Both, "Telephone number of a session (p=)."),
    RuleBuffer::of("sdp.connection_data", SIP, Both, "Connection address of a session (c=)."),
    RuleBuffer::of("sdp.bandwidth", SIP, Both, "A bandwidth of a session (b=).").multiple(),
    RuleBuffer::of("sdp.time", SIP, Both, "A start and end of a session (t=).").multiple(),
    RuleBuffer::of("sdp.repeat_time", SIP, Both, "A repetition of a session (r=).").multiple(),
    RuleBuffer::of("sdp.timezone", SIP, Both, "Adjustments of time zones (z=)."),
    RuleBuffer::of("sdp.encryption_key", SIP, Both, "Encryption key of a session (k=)."),
    RuleBuffer::of("sdp.attribute", SIP, Both, "An attribute of a session (a=).").multiple(),
    RuleBuffer::of("sdp.media.media", SIP, Both, "Kind, port, protocol and formats of a medium (m=).")
        .multiple(),
    RuleBuffer::of("sdp.media.media_info", SIP, Both, "Title of a medium (i=).")
        .old(&["sdp.media.session_info"])
        .multiple(),
    RuleBuffer::of("sdp.media.connection_data", SIP, Both, "Connection address of a medium (c=).").multiple(),
    RuleBuffer::of("sdp.media.encryption_key", SIP, Both, "Encryption key of a medium (k=).").multiple(),
    // SNMP, MQTT, Kerberos, LDAP and the rest.
    RuleBuffer::of("snmp.community", SNMP, Both, "Community."),
    RuleBuffer::of("snmp.usm", SNMP, Both, "User of SNMPv3."),
    RuleBuffer::of("snmp.trap_address", SNMP, Both, "Address of the agent of a trap of SNMPv1, as text."),
    RuleBuffer::of("snmp.trap_oid", SNMP, Both, "Object identifier of a trap of SNMPv1."),
    RuleBuffer::of("mqtt.connect.clientid", MQTT, ToServer, "Client identifier."),
    RuleBuffer::of("mqtt.connect.username", MQTT, ToServer, "User name."),
    RuleBuffer::of("mqtt.connect.password", MQTT, ToServer, "Password."),
    RuleBuffer::of("mqtt.connect.protocol_string", MQTT, ToServer, "Name of the protocol."),
    RuleBuffer::of("mqtt.connect.willtopic", MQTT, ToServer, "Topic of a will."),
    RuleBuffer::of("mqtt.connect.willmessage", MQTT, ToServer, "Message of a will."),
    RuleBuffer::of("mqtt.publish.topic", MQTT, Both, "Topic of a message."),
    RuleBuffer::of("mqtt.publish.message", MQTT, Both, "A message."),
    RuleBuffer::of("mqtt.subscribe.topic", MQTT, ToServer, "A topic that is subscribed.").multiple(),
    RuleBuffer::of("mqtt.unsubscribe.topic", MQTT, ToServer, "A topic that is unsubscribed.").multiple(),
    RuleBuffer::of("krb5.cname", &["kerberos"], ToClient, "A part of the client's name in a reply.")
        .old(&["krb5_cname"])
        .multiple(),
    RuleBuffer::of("krb5.sname", &["kerberos"], ToClient, "A part of the server's name in a reply.")
        .old(&["krb5_sname"])
        .multiple(),
    RuleBuffer::of("ldap.request.dn", LDAP, ToServer, "Distinguished name of a request."),
    RuleBuffer::of("ldap.responses.dn", LDAP, ToClient, "Distinguished name of a response.").multiple(),
    RuleBuffer::of("ldap.request.attribute_type", LDAP, ToServer, "An attribute of a request.").multiple(),
    RuleBuffer::of("ldap.responses.attribute_type", LDAP, ToClient, "An attribute of a response.").multiple(),
    RuleBuffer::of("ldap.responses.message", LDAP, ToClient, "Diagnostic message of a response.").multiple(),
    RuleBuffer::of("rfb.name", &["rfb"], ToClient, "Name of a desktop."),
    RuleBuffer::of("pgsql.query", &["postgresql"], ToServer, "A query."),
    RuleBuffer::of("tftp.file", &["tftp"], ToServer, "Name of a file of TFTP."),
    RuleBuffer::of("tftp.mode", &["tftp"], ToServer, "Mode of a transfer of TFTP."),
    RuleBuffer::of("websocket.payload", &["websocket"], Both, "Payload of a message."),
    RuleBuffer::of("dhcp.hostname", &["dhcp"], ToServer, "Name of a host that asks for an address."),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_plain_and_protocols_are_read() {
        let names = || {
            BUFFERS.iter().flat_map(|buffer| {
                std::iter::once(buffer.name).chain(buffer.old_names.iter().copied()).chain(buffer.modifier)
            })
        };
        for name in names() {
            assert_eq!(names().filter(|other| *other == name).count(), 1, "{name}");
            assert!(
                name.bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._".contains(&byte))
            );
        }
        for buffer in BUFFERS {
            assert!(buffer.help.ends_with('.') || buffer.help.ends_with("..."), "{}", buffer.name);
            assert!(buffer.protocols.iter().all(|name| crate::protocol::is_read(name)), "{}", buffer.name);
        }
        assert_eq!(PAYLOAD.origin, Payload);
    }
}
