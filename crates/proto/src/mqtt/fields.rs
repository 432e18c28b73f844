//! The columns of an exchange: those of each message type, in the order of the types.

use crate::{Field, Kind, Privacy, Table, field};

/// A topic of a subscription.
static TOPICS: [Field; 2] = [
    field("topic", Kind::Text, "Topic of the subscription.").eve("topic").privacy(Privacy::Content),
    field("qos", Kind::Uint, "Quality of service that the client requests.").eve("qos"),
];

/// A user property.
static PAIRS: [Field; 3] = [
    field("message", Kind::Word, "Type of the message that has the property."),
    field("name", Kind::Text, "Name of the property.").privacy(Privacy::Content),
    field("value", Kind::Text, "Value of the property.").privacy(Privacy::Content),
];

/// A request with the messages that acknowledge it.
pub(super) static MQTT: Table = Table {
    name: "mqtt",
    help: "A message with its acknowledgements.",
    zeek: "",
    eve: "mqtt",
    fields: &[
        field("connect_qos", Kind::Uint, "CONNECT: quality of service in the fixed header, 0 to 2.")
            .eve("mqtt.connect.qos"),
        field("connect_retain", Kind::Bool, "CONNECT: retain flag of the fixed header.")
            .eve("mqtt.connect.retain"),
        field("connect_dup", Kind::Bool, "CONNECT: duplicate flag (DUP) of the fixed header.")
            .eve("mqtt.connect.dup"),
        field("connect_protocol_string", Kind::Text, "CONNECT: protocol name.")
            .eve("mqtt.connect.protocol_string"),
        field("connect_protocol_version", Kind::Uint, "CONNECT: protocol version: 3, 4 (3.1.1) or 5.")
            .eve("mqtt.connect.protocol_version"),
        field("connect_has_username", Kind::Bool, "CONNECT: whether it has a user name.")
            .eve("mqtt.connect.flags.username"),
        field("connect_has_password", Kind::Bool, "CONNECT: whether it has a password.")
            .eve("mqtt.connect.flags.password"),
        field("connect_has_will", Kind::Bool, "CONNECT: whether it has a will.")
            .eve("mqtt.connect.flags.will"),
        field("connect_will_retain", Kind::Bool, "CONNECT: retain flag of the will.")
            .eve("mqtt.connect.flags.will_retain"),
        field(
            "connect_clean_session",
            Kind::Bool,
            "CONNECT: clean session flag: whether an earlier session is discarded.",
        )
        .eve("mqtt.connect.flags.clean_session"),
        field("connect_keep_alive", Kind::Uint, "CONNECT: keep alive interval in seconds."),
        field("connect_client_id", Kind::Text, "CONNECT: client identifier.")
            .eve("mqtt.connect.client_id")
            .privacy(Privacy::User),
        field("connect_username", Kind::Text, "CONNECT: user name.")
            .eve("mqtt.connect.username")
            .privacy(Privacy::User),
        field("connect_password", Kind::Text, "CONNECT: password.")
            .eve("mqtt.connect.password")
            .privacy(Privacy::Secret),
        field("connect_will_topic", Kind::Text, "CONNECT: will topic.")
            .eve("mqtt.connect.will.topic")
            .privacy(Privacy::Content),
        field("connect_will_message", Kind::Text, "CONNECT: payload of the will.")
            .eve("mqtt.connect.will.message")
            .privacy(Privacy::Content),
        field("connect_session_expiry_interval", Kind::Uint, "CONNECT: property session expiry interval.")
            .eve("mqtt.connect.properties.session_expiry_interval"),
        field("connect_receive_maximum", Kind::Uint, "CONNECT: property receive maximum.")
            .eve("mqtt.connect.properties.receive_maximum"),
        field("connect_maximum_packet_size", Kind::Uint, "CONNECT: property maximum packet size.")
            .eve("mqtt.connect.properties.maximum_packet_size"),
        field("connect_topic_alias_maximum", Kind::Uint, "CONNECT: property topic alias maximum.")
            .eve("mqtt.connect.properties.topic_alias_maximum"),
        field(
            "connect_request_response_information",
            Kind::Uint,
            "CONNECT: property request response information.",
        )
        .eve("mqtt.connect.properties.request_response_information"),
        field(
            "connect_request_problem_information",
            Kind::Uint,
            "CONNECT: property request problem information.",
        )
        .eve("mqtt.connect.properties.request_problem_information"),
        field("connect_authentication_method", Kind::Text, "CONNECT: property authentication method.")
            .eve("mqtt.connect.properties.authentication_method"),
        field("connect_authentication_data", Kind::Text, "CONNECT: property authentication data.")
            .eve("mqtt.connect.properties.authentication_data")
            .privacy(Privacy::Secret),
        field("will_payload_format_indicator", Kind::Uint, "Will: property payload format indicator.")
            .eve("mqtt.connect.will.properties.payload_format_indicator"),
        field("will_message_expiry_interval", Kind::Uint, "Will: property message expiry interval.")
            .eve("mqtt.connect.will.properties.message_expiry_interval"),
        field("will_content_type", Kind::Text, "Will: property content type.")
            .eve("mqtt.connect.will.properties.content_type"),
        field("will_response_topic", Kind::Text, "Will: property response topic.")
            .eve("mqtt.connect.will.properties.response_topic")
            .privacy(Privacy::Content),
        field("will_correlation_data", Kind::Text, "Will: property correlation data.")
            .eve("mqtt.connect.will.properties.correlation_data")
            .privacy(Privacy::Content),
        field("will_will_delay_interval", Kind::Uint, "Will: property will delay interval.")
            .eve("mqtt.connect.will.properties.will_delay_interval"),
        field("connack_qos", Kind::Uint, "CONNACK: quality of service in the fixed header, 0 to 2.")
            .eve("mqtt.connack.qos"),
        field("connack_retain", Kind::Bool, "CONNACK: retain flag of the fixed header.")
            .eve("mqtt.connack.retain"),
        field("connack_dup", Kind::Bool, "CONNACK: duplicate flag (DUP) of the fixed header.")
            .eve("mqtt.connack.dup"),
        field(
            "connack_session_present",
            Kind::Bool,
            "CONNACK: session present flag: whether an earlier session continues.",
        )
        .eve("mqtt.connack.session_present"),
        field("connack_return_code", Kind::Uint, "CONNACK: return code; 0: accepted.")
            .eve("mqtt.connack.return_code"),
        field("connack_session_expiry_interval", Kind::Uint, "CONNACK: property session expiry interval.")
            .eve("mqtt.connack.properties.session_expiry_interval"),
        field("connack_receive_maximum", Kind::Uint, "CONNACK: property receive maximum.")
            .eve("mqtt.connack.properties.receive_maximum"),
        field("connack_maximum_qos", Kind::Uint, "CONNACK: property maximum qos.")
            .eve("mqtt.connack.properties.maximum_qos"),
        field("connack_retain_available", Kind::Uint, "CONNACK: property retain available.")
            .eve("mqtt.connack.properties.retain_available"),
        field("connack_maximum_packet_size", Kind::Uint, "CONNACK: property maximum packet size.")
            .eve("mqtt.connack.properties.maximum_packet_size"),
        field(
            "connack_assigned_client_identifier",
            Kind::Text,
            "CONNACK: property assigned client identifier.",
        )
        .eve("mqtt.connack.properties.assigned_client_identifier")
        .privacy(Privacy::User),
        field("connack_topic_alias_maximum", Kind::Uint, "CONNACK: property topic alias maximum.")
            .eve("mqtt.connack.properties.topic_alias_maximum"),
        field("connack_reason_string", Kind::Text, "CONNACK: property reason string.")
            .eve("mqtt.connack.properties.reason_string")
            .privacy(Privacy::Content),
        field(
            "connack_wildcard_subscription_available",
            Kind::Uint,
            "CONNACK: property wildcard subscription available.",
        )
        .eve("mqtt.connack.properties.wildcard_subscription_available"),
        field(
            "connack_subscription_identifiers_available",
            Kind::Uint,
            "CONNACK: property subscription identifiers available.",
        )
        .eve("mqtt.connack.properties.subscription_identifiers_available"),
        field(
            "connack_shared_subscription_available",
            Kind::Uint,
            "CONNACK: property shared subscription available.",
        )
        .eve("mqtt.connack.properties.shared_subscription_available"),
        field("connack_server_keep_alive", Kind::Uint, "CONNACK: property server keep alive.")
            .eve("mqtt.connack.properties.server_keep_alive"),
        field("connack_response_information", Kind::Text, "CONNACK: property response information.")
            .eve("mqtt.connack.properties.response_information")
            .privacy(Privacy::Content),
        field("connack_server_reference", Kind::Text, "CONNACK: property server reference.")
            .eve("mqtt.connack.properties.server_reference")
            .privacy(Privacy::Name),
        field("connack_authentication_method", Kind::Text, "CONNACK: property authentication method.")
            .eve("mqtt.connack.properties.authentication_method"),
        field("connack_authentication_data", Kind::Text, "CONNACK: property authentication data.")
            .eve("mqtt.connack.properties.authentication_data")
            .privacy(Privacy::Secret),
        field("publish_qos", Kind::Uint, "PUBLISH: quality of service in the fixed header, 0 to 2.")
            .eve("mqtt.publish.qos"),
        field("publish_retain", Kind::Bool, "PUBLISH: retain flag of the fixed header.")
            .eve("mqtt.publish.retain"),
        field("publish_dup", Kind::Bool, "PUBLISH: duplicate flag (DUP) of the fixed header.")
            .eve("mqtt.publish.dup"),
        field("publish_topic", Kind::Text, "PUBLISH: topic.")
            .eve("mqtt.publish.topic")
            .privacy(Privacy::Content),
        field("publish_message_id", Kind::Uint, "PUBLISH: packet identifier.").eve("mqtt.publish.message_id"),
        field("publish_message", Kind::Text, "PUBLISH: payload, up to 4,096 bytes.")
            .eve("mqtt.publish.message")
            .privacy(Privacy::Content),
        field("publish_bytes", Kind::Uint, "PUBLISH: length of the payload in bytes."),
        field("publish_payload_format_indicator", Kind::Uint, "PUBLISH: property payload format indicator.")
            .eve("mqtt.publish.properties.payload_format_indicator"),
        field("publish_message_expiry_interval", Kind::Uint, "PUBLISH: property message expiry interval.")
            .eve("mqtt.publish.properties.message_expiry_interval"),
        field("publish_topic_alias", Kind::Uint, "PUBLISH: property topic alias.")
            .eve("mqtt.publish.properties.topic_alias"),
        field("publish_response_topic", Kind::Text, "PUBLISH: property response topic.")
            .eve("mqtt.publish.properties.response_topic")
            .privacy(Privacy::Content),
        field("publish_correlation_data", Kind::Text, "PUBLISH: property correlation data.")
            .eve("mqtt.publish.properties.correlation_data")
            .privacy(Privacy::Content),
        field("publish_subscription_identifier", Kind::Uint, "PUBLISH: property subscription identifier.")
            .eve("mqtt.publish.properties.subscription_identifier"),
        field("publish_content_type", Kind::Text, "PUBLISH: property content type.")
            .eve("mqtt.publish.properties.content_type"),
        field("puback_qos", Kind::Uint, "PUBACK: quality of service in the fixed header, 0 to 2.")
            .eve("mqtt.puback.qos"),
        field("puback_retain", Kind::Bool, "PUBACK: retain flag of the fixed header.")
            .eve("mqtt.puback.retain"),
        field("puback_dup", Kind::Bool, "PUBACK: duplicate flag (DUP) of the fixed header.")
            .eve("mqtt.puback.dup"),
        field("puback_message_id", Kind::Uint, "PUBACK: packet identifier.").eve("mqtt.puback.message_id"),
        field("puback_reason_code", Kind::Uint, "PUBACK: reason code.").eve("mqtt.puback.reason_code"),
        field("puback_reason_string", Kind::Text, "PUBACK: property reason string.")
            .eve("mqtt.puback.properties.reason_string")
            .privacy(Privacy::Content),
        field("pubrec_qos", Kind::Uint, "PUBREC: quality of service in the fixed header, 0 to 2.")
            .eve("mqtt.pubrec.qos"),
        field("pubrec_retain", Kind::Bool, "PUBREC: retain flag of the fixed header.")
            .eve("mqtt.pubrec.retain"),
        field("pubrec_dup", Kind::Bool, "PUBREC: duplicate flag (DUP) of the fixed header.")
            .eve("mqtt.pubrec.dup"),
        field("pubrec_message_id", Kind::Uint, "PUBREC: packet identifier.").eve("mqtt.pubrec.message_id"),
        field("pubrec_reason_code", Kind::Uint, "PUBREC: reason code.").eve("mqtt.pubrec.reason_code"),
        field("pubrec_reason_string", Kind::Text, "PUBREC: property reason string.")
            .eve("mqtt.pubrec.properties.reason_string")
            .privacy(Privacy::Content),
        field("pubrel_qos", Kind::Uint, "PUBREL: quality of service in the fixed header, 0 to 2.")
            .eve("mqtt.pubrel.qos"),
        field("pubrel_retain", Kind::Bool, "PUBREL: retain flag of the fixed header.")
            .eve("mqtt.pubrel.retain"),
        field("pubrel_dup", Kind::Bool, "PUBREL: duplicate flag (DUP) of the fixed header.")
            .eve("mqtt.pubrel.dup"),
        field("pubrel_message_id", Kind::Uint, "PUBREL: packet identifier.").eve("mqtt.pubrel.message_id"),
        field("pubrel_reason_code", Kind::Uint, "PUBREL: reason code.").eve("mqtt.pubrel.reason_code"),
        field("pubrel_reason_string", Kind::Text, "PUBREL: property reason string.")
            .eve("mqtt.pubrel.properties.reason_string")
            .privacy(Privacy::Content),
        field("pubcomp_qos", Kind::Uint, "PUBCOMP: quality of service in the fixed header, 0 to 2.")
            .eve("mqtt.pubcomp.qos"),
        field("pubcomp_retain", Kind::Bool, "PUBCOMP: retain flag of the fixed header.")
            .eve("mqtt.pubcomp.retain"),
        field("pubcomp_dup", Kind::Bool, "PUBCOMP: duplicate flag (DUP) of the fixed header.")
            .eve("mqtt.pubcomp.dup"),
        field("pubcomp_message_id", Kind::Uint, "PUBCOMP: packet identifier.").eve("mqtt.pubcomp.message_id"),
        field("pubcomp_reason_code", Kind::Uint, "PUBCOMP: reason code.").eve("mqtt.pubcomp.reason_code"),
        field("pubcomp_reason_string", Kind::Text, "PUBCOMP: property reason string.")
            .eve("mqtt.pubcomp.properties.reason_string")
            .privacy(Privacy::Content),
        field("subscribe_qos", Kind::Uint, "SUBSCRIBE: quality of service in the fixed header, 0 to 2.")
            .eve("mqtt.subscribe.qos"),
        field("subscribe_retain", Kind::Bool, "SUBSCRIBE: retain flag of the fixed header.")
            .eve("mqtt.subscribe.retain"),
        field("subscribe_dup", Kind::Bool, "SUBSCRIBE: duplicate flag (DUP) of the fixed header.")
            .eve("mqtt.subscribe.dup"),
        field("subscribe_message_id", Kind::Uint, "SUBSCRIBE: packet identifier.")
            .eve("mqtt.subscribe.message_id"),
        field("subscribe_topics", Kind::Rows(&TOPICS), "SUBSCRIBE: topics with their quality of service.")
            .eve("mqtt.subscribe.topics"),
        field(
            "subscribe_subscription_identifier",
            Kind::Uint,
            "SUBSCRIBE: property subscription identifier.",
        )
        .eve("mqtt.subscribe.properties.subscription_identifier"),
        field("suback_qos", Kind::Uint, "SUBACK: quality of service in the fixed header, 0 to 2.")
            .eve("mqtt.suback.qos"),
        field("suback_retain", Kind::Bool, "SUBACK: retain flag of the fixed header.")
            .eve("mqtt.suback.retain"),
        field("suback_dup", Kind::Bool, "SUBACK: duplicate flag (DUP) of the fixed header.")
            .eve("mqtt.suback.dup"),
        field("suback_message_id", Kind::Uint, "SUBACK: packet identifier.").eve("mqtt.suback.message_id"),
        field(
            "suback_qos_granted",
            Kind::List(&Kind::Uint),
            "SUBACK: quality of service granted for each topic.",
        )
        .eve("mqtt.suback.qos_granted"),
        field("suback_reason_string", Kind::Text, "SUBACK: property reason string.")
            .eve("mqtt.suback.properties.reason_string")
            .privacy(Privacy::Content),
        field("unsubscribe_qos", Kind::Uint, "UNSUBSCRIBE: quality of service in the fixed header, 0 to 2.")
            .eve("mqtt.unsubscribe.qos"),
        field("unsubscribe_retain", Kind::Bool, "UNSUBSCRIBE: retain flag of the fixed header.")
            .eve("mqtt.unsubscribe.retain"),
        field("unsubscribe_dup", Kind::Bool, "UNSUBSCRIBE: duplicate flag (DUP) of the fixed header.")
            .eve("mqtt.unsubscribe.dup"),
        field("unsubscribe_message_id", Kind::Uint, "UNSUBSCRIBE: packet identifier.")
            .eve("mqtt.unsubscribe.message_id"),
        field("unsubscribe_topics", Kind::List(&Kind::Text), "UNSUBSCRIBE: topics.")
            .eve("mqtt.unsubscribe.topics")
            .privacy(Privacy::Content),
        field("unsuback_qos", Kind::Uint, "UNSUBACK: quality of service in the fixed header, 0 to 2.")
            .eve("mqtt.unsuback.qos"),
        field("unsuback_retain", Kind::Bool, "UNSUBACK: retain flag of the fixed header.")
            .eve("mqtt.unsuback.retain"),
        field("unsuback_dup", Kind::Bool, "UNSUBACK: duplicate flag (DUP) of the fixed header.")
            .eve("mqtt.unsuback.dup"),
        field("unsuback_message_id", Kind::Uint, "UNSUBACK: packet identifier.")
            .eve("mqtt.unsuback.message_id"),
        field("unsuback_reason_codes", Kind::List(&Kind::Uint), "UNSUBACK: reason code of each topic.")
            .eve("mqtt.unsuback.reason_codes"),
        field("unsuback_reason_string", Kind::Text, "UNSUBACK: property reason string.")
            .eve("mqtt.unsuback.properties.reason_string")
            .privacy(Privacy::Content),
        field("pingreq_qos", Kind::Uint, "PINGREQ: quality of service in the fixed header, 0 to 2.")
            .eve("mqtt.pingreq.qos"),
        field("pingreq_retain", Kind::Bool, "PINGREQ: retain flag of the fixed header.")
            .eve("mqtt.pingreq.retain"),
        field("pingreq_dup", Kind::Bool, "PINGREQ: duplicate flag (DUP) of the fixed header.")
            .eve("mqtt.pingreq.dup"),
        field("pingresp_qos", Kind::Uint, "PINGRESP: quality of service in the fixed header, 0 to 2.")
            .eve("mqtt.pingresp.qos"),
        field("pingresp_retain", Kind::Bool, "PINGRESP: retain flag of the fixed header.")
            .eve("mqtt.pingresp.retain"),
        field("pingresp_dup", Kind::Bool, "PINGRESP: duplicate flag (DUP) of the fixed header.")
            .eve("mqtt.pingresp.dup"),
        field("disconnect_qos", Kind::Uint, "DISCONNECT: quality of service in the fixed header, 0 to 2.")
            .eve("mqtt.disconnect.qos"),
        field("disconnect_retain", Kind::Bool, "DISCONNECT: retain flag of the fixed header.")
            .eve("mqtt.disconnect.retain"),
        field("disconnect_dup", Kind::Bool, "DISCONNECT: duplicate flag (DUP) of the fixed header.")
            .eve("mqtt.disconnect.dup"),
        field("disconnect_reason_code", Kind::Uint, "DISCONNECT: reason code.")
            .eve("mqtt.disconnect.reason_code"),
        field(
            "disconnect_session_expiry_interval",
            Kind::Uint,
            "DISCONNECT: property session expiry interval.",
        )
        .eve("mqtt.disconnect.properties.session_expiry_interval"),
        field("disconnect_reason_string", Kind::Text, "DISCONNECT: property reason string.")
            .eve("mqtt.disconnect.properties.reason_string")
            .privacy(Privacy::Content),
        field("disconnect_server_reference", Kind::Text, "DISCONNECT: property server reference.")
            .eve("mqtt.disconnect.properties.server_reference")
            .privacy(Privacy::Name),
        field("auth_qos", Kind::Uint, "AUTH: quality of service in the fixed header, 0 to 2.")
            .eve("mqtt.auth.qos"),
        field("auth_retain", Kind::Bool, "AUTH: retain flag of the fixed header.").eve("mqtt.auth.retain"),
        field("auth_dup", Kind::Bool, "AUTH: duplicate flag (DUP) of the fixed header.").eve("mqtt.auth.dup"),
        field("auth_reason_code", Kind::Uint, "AUTH: reason code.").eve("mqtt.auth.reason_code"),
        field("auth_authentication_method", Kind::Text, "AUTH: property authentication method.")
            .eve("mqtt.auth.properties.authentication_method"),
        field("auth_authentication_data", Kind::Text, "AUTH: property authentication data.")
            .eve("mqtt.auth.properties.authentication_data")
            .privacy(Privacy::Secret),
        field("auth_reason_string", Kind::Text, "AUTH: property reason string.")
            .eve("mqtt.auth.properties.reason_string")
            .privacy(Privacy::Content),
        field("user_properties", Kind::Rows(&PAIRS), "User properties."),
    ],
};

/// First column of each message type, by its number; each begins with quality of service, retain and duplicate flag.
pub(super) const BEGIN: [usize; 16] = [0, 0, 30, 51, 65, 71, 77, 83, 89, 95, 101, 106, 112, 115, 118, 125];

pub(super) const CONNECT_PROTOCOL_STRING: usize = 3;
pub(super) const CONNECT_PROTOCOL_VERSION: usize = 4;
pub(super) const CONNECT_HAS_USERNAME: usize = 5;
pub(super) const CONNECT_HAS_PASSWORD: usize = 6;
pub(super) const CONNECT_HAS_WILL: usize = 7;
pub(super) const CONNECT_WILL_RETAIN: usize = 8;
pub(super) const CONNECT_CLEAN_SESSION: usize = 9;
pub(super) const CONNECT_KEEP_ALIVE: usize = 10;
pub(super) const CONNECT_CLIENT_ID: usize = 11;
pub(super) const CONNECT_USERNAME: usize = 12;
pub(super) const CONNECT_PASSWORD: usize = 13;
pub(super) const CONNECT_WILL_TOPIC: usize = 14;
pub(super) const CONNECT_WILL_MESSAGE: usize = 15;
pub(super) const CONNACK_SESSION_PRESENT: usize = 33;
pub(super) const CONNACK_RETURN_CODE: usize = 34;
pub(super) const PUBLISH_TOPIC: usize = 54;
pub(super) const PUBLISH_MESSAGE_ID: usize = 55;
pub(super) const PUBLISH_MESSAGE: usize = 56;
pub(super) const PUBLISH_BYTES: usize = 57;
pub(super) const SUBSCRIBE_MESSAGE_ID: usize = 92;
pub(super) const SUBSCRIBE_TOPICS: usize = 93;
pub(super) const SUBACK_MESSAGE_ID: usize = 98;
pub(super) const SUBACK_QOS_GRANTED: usize = 99;
pub(super) const UNSUBSCRIBE_MESSAGE_ID: usize = 104;
pub(super) const UNSUBSCRIBE_TOPICS: usize = 105;
pub(super) const UNSUBACK_MESSAGE_ID: usize = 109;
pub(super) const UNSUBACK_REASON_CODES: usize = 110;
pub(super) const DISCONNECT_REASON_CODE: usize = 121;
pub(super) const AUTH_REASON_CODE: usize = 128;
pub(super) const USER_PROPERTIES: usize = 132;
pub(super) const WIDTH: usize = 133;

/// Column of a property of a message type; type 0 is a will.
pub(super) const PROPERTIES: [(u8, u8, usize); 50] = [
    (1, 17, 16),
    (1, 33, 17),
    (1, 39, 18),
    (1, 34, 19),
    (1, 25, 20),
    (1, 23, 21),
    (1, 21, 22),
    (1, 22, 23),
    (0, 1, 24),
    (0, 2, 25),
    (0, 3, 26),
    (0, 8, 27),
    (0, 9, 28),
    (0, 24, 29),
    (2, 17, 35),
    (2, 33, 36),
    (2, 36, 37),
    (2, 37, 38),
    (2, 39, 39),
    (2, 18, 40),
    (2, 34, 41),
    (2, 31, 42),
    (2, 40, 43),
    (2, 41, 44),
    (2, 42, 45),
    (2, 19, 46),
    (2, 26, 47),
    (2, 28, 48),
    (2, 21, 49),
    (2, 22, 50),
    (3, 1, 58),
    (3, 2, 59),
    (3, 35, 60),
    (3, 8, 61),
    (3, 9, 62),
    (3, 11, 63),
    (3, 3, 64),
    (4, 31, 70),
    (5, 31, 76),
    (6, 31, 82),
    (7, 31, 88),
    (8, 11, 94),
    (9, 31, 100),
    (11, 31, 111),
    (14, 17, 122),
    (14, 31, 123),
    (14, 28, 124),
    (15, 21, 129),
    (15, 22, 130),
    (15, 31, 131),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mqtt::NAMES;

    #[test]
    fn columns_are_at_their_declared_positions() {
        assert_eq!(MQTT.fields.len(), WIDTH);
        assert_eq!(MQTT.fields[USER_PROPERTIES].name, "user_properties");
        assert_eq!(MQTT.fields[CONNECT_PASSWORD].name, "connect_password");
        assert_eq!(MQTT.fields[AUTH_REASON_CODE].name, "auth_reason_code");
        for (kind, begin) in BEGIN.iter().enumerate().skip(1) {
            for (at, word) in ["qos", "retain", "dup"].into_iter().enumerate() {
                assert_eq!(MQTT.fields[begin + at].name, format!("{}_{word}", NAMES[kind]));
            }
        }
        for (kind, property, at) in PROPERTIES {
            let path = if kind == 0 { "connect.will" } else { NAMES[usize::from(kind)] };
            let eve = MQTT.fields[at].eve;
            assert!(
                eve.starts_with(&format!("mqtt.{path}.properties.")),
                "{property} of {path} at {at}: {eve}"
            );
        }
    }
}
