//! The words for numbers in messages, as the RFCs have them.

use super::message::code as codes;

/// The word for a code of a message.
pub fn code(number: u8) -> &'static str {
    match number {
        codes::ACCESS_REQUEST => "Access-Request",
        codes::ACCESS_ACCEPT => "Access-Accept",
        codes::ACCESS_REJECT => "Access-Reject",
        codes::ACCOUNTING_REQUEST => "Accounting-Request",
        codes::ACCOUNTING_RESPONSE => "Accounting-Response",
        codes::ACCESS_CHALLENGE => "Access-Challenge",
        codes::STATUS_SERVER => "Status-Server",
        codes::DISCONNECT_REQUEST => "Disconnect-Request",
        codes::DISCONNECT_ACK => "Disconnect-ACK",
        codes::DISCONNECT_NAK => "Disconnect-NAK",
        codes::COA_REQUEST => "CoA-Request",
        codes::COA_ACK => "CoA-ACK",
        codes::COA_NAK => "CoA-NAK",
        _ => "Status-Client",
    }
}

/// Zeek's word for the answer to a request.
pub fn result(code: u8) -> &'static str {
    match code {
        codes::ACCESS_REJECT | codes::DISCONNECT_NAK | codes::COA_NAK => "failed",
        _ => "success",
    }
}

/// The word of a number out of a list that begins with 1.
fn nth(number: u32, words: &[&str]) -> String {
    let word = usize::try_from(number).ok().and_then(|number| words.get(number.checked_sub(1)?));
    word.map_or_else(|| format!("unknown-{number}"), |word| (*word).to_owned())
}

/// Acct-Status-Type (RFC 2866, 5.1; RFC 2867, 3).
pub fn status(number: u32) -> String {
    if number == 15 {
        return "Failed".to_owned();
    }
    let words = [
        "Start",
        "Stop",
        "Interim-Update",
        "unknown-4",
        "unknown-5",
        "unknown-6",
        "Accounting-On",
        "Accounting-Off",
        "Tunnel-Start",
        "Tunnel-Stop",
        "Tunnel-Reject",
        "Tunnel-Link-Start",
        "Tunnel-Link-Stop",
        "Tunnel-Link-Reject",
    ];
    nth(number, &words)
}

/// Acct-Terminate-Cause (RFC 2866, 5.10; RFC 3580, 5).
pub fn terminate_cause(number: u32) -> String {
    let words = [
        "User-Request",
        "Lost-Carrier",
        "Lost-Service",
        "Idle-Timeout",
        "Session-Timeout",
        "Admin-Reset",
        "Admin-Reboot",
        "Port-Error",
        "NAS-Error",
        "NAS-Request",
        "NAS-Reboot",
        "Port-Unneeded",
        "Port-Preempted",
        "Port-Suspended",
        "Service-Unavailable",
        "Callback",
        "User-Error",
        "Host-Request",
        "Supplicant-Restart",
        "Reauthentication-Failure",
        "Port-Reinitialized",
        "Port-Administratively-Disabled",
    ];
    nth(number, &words)
}

/// Error-Cause (RFC 5176, 3.6).
pub fn error_cause(number: u32) -> String {
    let word = match number {
        201 => "Residual-Context-Removed",
        202 => "Invalid-EAP-Packet",
        401 => "Unsupported-Attribute",
        402 => "Missing-Attribute",
        403 => "NAS-Identification-Mismatch",
        404 => "Invalid-Request",
        405 => "Unsupported-Service",
        406 => "Unsupported-Extension",
        407 => "Invalid-Attribute-Value",
        501 => "Administratively-Prohibited",
        502 => "Request-Not-Routable",
        503 => "Session-Context-Not-Found",
        504 => "Session-Context-Not-Removable",
        505 => "Other-Proxy-Processing-Error",
        506 => "Resources-Unavailable",
        507 => "Request-Initiated",
        508 => "Multiple-Session-Selection-Unsupported",
        _ => return format!("unknown-{number}"),
    };
    word.to_owned()
}

/// The name of a method of EAP (RFC 3748, 5, and IANA's registry).
pub fn method(number: u8) -> String {
    let word = match number {
        4 => "MD5-Challenge",
        5 => "One-Time-Password",
        6 => "Generic-Token-Card",
        13 => "EAP-TLS",
        17 => "LEAP",
        18 => "EAP-SIM",
        21 => "EAP-TTLS",
        23 => "EAP-AKA",
        25 => "PEAP",
        26 => "EAP-MSCHAPv2",
        43 => "EAP-FAST",
        47 => "EAP-PSK",
        49 => "EAP-IKEv2",
        50 => "EAP-AKA'",
        52 => "EAP-pwd",
        53 => "EAP-EKE",
        55 => "TEAP",
        254 => "expanded",
        _ => return format!("unknown-{number}"),
    };
    word.to_owned()
}
