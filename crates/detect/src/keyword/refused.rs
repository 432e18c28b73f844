//! Keywords whose rules are refused, each with its reason.

use super::row::{Group, Keyword, Meaning};

pub(super) fn keywords() -> Vec<Keyword> {
    let row = |(reason, names): &(&'static str, &'static [&'static str])| {
        let reason = *reason;
        names.iter().map(move |name| refused(name, reason)).collect::<Vec<_>>()
    };
    ROWS.iter().flat_map(row).collect()
}

fn refused(name: &'static str, reason: &'static str) -> Keyword {
    Keyword {
        name,
        old_names: &[],
        group: Group::Protocol,
        help: reason,
        arguments: "",
        accepted: &[],
        refused: &[],
        meaning: Meaning::Refused(reason),
    }
}

/// Why, and what.
const ROWS: &[(&str, &[&str])] = &[
    ("scripts of the user would run in the pass", &["lua", "luajit", "luaxform"]),
    ("Weir changes no packet", &["replace"]),
    ("Weir looks at every packet of a flow", &["bypass"]),
    ("Weir marks no packet", &["nfq_set_mark"]),
    ("what is logged is set by the configuration", &["config"]),
    ("states of transactions are not read for rules", &["app-layer-state"]),
    ("no flow is taken for an elephant flow", &["flow.elephant"]),
    ("it is an example for developers of Suricata", &["template2"]),
    ("frames of protocols are not searched", &["frame"]),
    (
        "no parser reads frames of HTTP/2 for rules",
        &[
            "http2.errorcode",
            "http2.frametype",
            "http2.header_name",
            "http2.headers",
            "http2.priority",
            "http2.settings",
            "http2.size_update",
            "http2.window",
        ],
    ),
    ("NFS is identified and not read", &["nfs.version", "nfs_procedure", "nfs_version", "rpc"]),
    (
        "IKE is identified and not read",
        &[
            "ike.chosen_sa_attribute",
            "ike.exchtype",
            "ike.init_spi",
            "ike.key_exchange_payload",
            "ike.key_exchange_payload_length",
            "ike.nonce_payload",
            "ike.nonce_payload_length",
            "ike.resp_spi",
            "ike.vendor",
        ],
    ),
    ("objects of DNP3 are not read", &["dnp3.data", "dnp3_data", "dnp3_obj"]),
    (
        "EtherNet/IP is identified and not read",
        &[
            "cip_service",
            "enip_command",
            "enip.capabilities",
            "enip.cip_attribute",
            "enip.cip_class",
            "enip.cip_extendedstatus",
            "enip.cip_instance",
            "enip.cip_status",
            "enip.command",
            "enip.device_type",
            "enip.identity_status",
            "enip.product_code",
            "enip.product_name",
            "enip.protocol_version",
            "enip.revision",
            "enip.serial",
            "enip.service_name",
            "enip.state",
            "enip.status",
            "enip.vendor_id",
        ],
    ),
    ("functions of Modbus are not read for rules", &["modbus"]),
    (
        "chunks of SCTP are not searched",
        &["sctp.chunk_cnt", "sctp.chunk_data", "sctp.chunk_type", "sctp.hdr", "sctp.vtag"],
    ),
    ("captures of expressions are not kept", &["flowvar", "pktvar", "hostvar"]),
    ("handshakes of QUIC are hashed as JA3 and JA4 alone", &["quic.cyu.hash", "quic.cyu.string"]),
    ("protocols of nDPI are not identified", &["ndpi-protocol", "ndpi-risk"]),
    ("labels of traffic are not kept", &["traffic_id", "traffic_label"]),
    ("codes of responses of mDNS and LLMNR are not read for rules", &["llmnr.rcode", "mdns.rcode"]),
    ("IGMP is not read", &["igmp.hdr", "igmp.type"]),
];
