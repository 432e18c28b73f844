//! The columns of an exchange: those of each message type, in the order of the types.

use crate::{Field, Kind, Privacy, Table, field};

/// A topic of a subscription.
pub(super) static TOPICS: [Field; 2] = [
    field("topic", Kind::Text, "Topic of the subscription.").eve("topic").privacy(Privacy::Content),
    field("qos", Kind::Uint, "Quality of service that the client requests.").eve("qos"),
];

/// A user property of a message that has a column for them.
pub(super) static NAMED: [Field; 2] = [
    field("name", Kind::Text, "Name of the property.").privacy(Privacy::Content),
    field("value", Kind::Text, "Value of the property.").privacy(Privacy::Content),
];

/// A user property of another message.
pub(super) static PAIRS: [Field; 3] = [
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
        field(
            "connect_session_expiry_interval",
            Kind::Uint,
            "CONNECT: property session expiry interval, in seconds.",
        )
        .eve("mqtt.connect.properties.session_expiry_interval"),
        field(
            "connect_receive_maximum",
            Kind::Uint,
            "CONNECT: property receive maximum: limit of messages that are not acknowledged yet.",
        )
        .eve("mqtt.connect.properties.receive_maximum"),
        field("connect_maximum_packet_size", Kind::Uint, "CONNECT: property maximum packet size, in bytes.")
            .eve("mqtt.connect.properties.maximum_packet_size"),
        field("connect_topic_alias_maximum", Kind::Uint, "CONNECT: property topic alias maximum.")
            .eve("mqtt.connect.properties.topic_alias_maximum"),
        field(
            "connect_request_response_information",
            Kind::Uint,
            "CONNECT: property request response information; 1: the server may send response information.",
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
        field(
            "will_payload_format_indicator",
            Kind::Uint,
            "Will: property payload format indicator; 0: bytes, 1: UTF-8.",
        )
        .eve("mqtt.connect.will.properties.payload_format_indicator"),
        field(
            "will_message_expiry_interval",
            Kind::Uint,
            "Will: property message expiry interval, in seconds.",
        )
        .eve("mqtt.connect.will.properties.message_expiry_interval"),
        field("will_content_type", Kind::Text, "Will: property content type.")
            .eve("mqtt.connect.will.properties.content_type"),
        field("will_response_topic", Kind::Text, "Will: property response topic.")
            .eve("mqtt.connect.will.properties.response_topic")
            .privacy(Privacy::Content),
        field("will_correlation_data", Kind::Text, "Will: property correlation data.")
            .eve("mqtt.connect.will.properties.correlation_data")
            .privacy(Privacy::Content),
        field("will_will_delay_interval", Kind::Uint, "Will: property will delay interval, in seconds.")
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
        field(
            "connack_session_expiry_interval",
            Kind::Uint,
            "CONNACK: property session expiry interval, in seconds.",
        )
        .eve("mqtt.connack.properties.session_expiry_interval"),
        field(
            "connack_receive_maximum",
            Kind::Uint,
            "CONNACK: property receive maximum: limit of messages that are not acknowledged yet.",
        )
        .eve("mqtt.connack.properties.receive_maximum"),
        field(
            "connack_maximum_qos",
            Kind::Uint,
            "CONNACK: property maximum QoS: highest quality of service that the server supports.",
        )
        .eve("mqtt.connack.properties.maximum_qos"),
        field(
            "connack_retain_available",
            Kind::Uint,
            "CONNACK: property retain available; 0: not supported.",
        )
        .eve("mqtt.connack.properties.retain_available"),
        field("connack_maximum_packet_size", Kind::Uint, "CONNACK: property maximum packet size, in bytes.")
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
            "CONNACK: property wildcard subscription available; 0: not supported.",
        )
        .eve("mqtt.connack.properties.wildcard_subscription_available"),
        field(
            "connack_subscription_identifiers_available",
            Kind::Uint,
            "CONNACK: property subscription identifiers available; 0: not supported.",
        )
        .eve("mqtt.connack.properties.subscription_identifiers_available"),
        field(
            "connack_shared_subscription_available",
            Kind::Uint,
            "CONNACK: property shared subscription available; 0: not supported.",
        )
        .eve("mqtt.connack.properties.shared_subscription_available"),
        field("connack_server_keep_alive", Kind::Uint, "CONNACK: property server keep alive, in seconds.")
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
        field("publish_truncated", Kind::Bool, "PUBLISH: whether only its first 65,536 bytes were read.")
            .eve("mqtt.publish.truncated"),
        field(
            "publish_size",
            Kind::Uint,
            "PUBLISH: size of the message in bytes, if only its beginning was read.",
        )
        .eve("mqtt.publish.skipped_length"),
        field(
            "publish_payload_format_indicator",
            Kind::Uint,
            "PUBLISH: property payload format indicator; 0: bytes, 1: UTF-8.",
        )
        .eve("mqtt.publish.properties.payload_format_indicator"),
        field(
            "publish_message_expiry_interval",
            Kind::Uint,
            "PUBLISH: property message expiry interval, in seconds.",
        )
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
        field("puback_reason_code", Kind::Uint, "PUBACK: reason code (MQTT 5, 2.4).")
            .eve("mqtt.puback.reason_code"),
        field("puback_reason_string", Kind::Text, "PUBACK: property reason string.")
            .privacy(Privacy::Content),
        field("pubrec_qos", Kind::Uint, "PUBREC: quality of service in the fixed header, 0 to 2.")
            .eve("mqtt.pubrec.qos"),
        field("pubrec_retain", Kind::Bool, "PUBREC: retain flag of the fixed header.")
            .eve("mqtt.pubrec.retain"),
        field("pubrec_dup", Kind::Bool, "PUBREC: duplicate flag (DUP) of the fixed header.")
            .eve("mqtt.pubrec.dup"),
        field("pubrec_message_id", Kind::Uint, "PUBREC: packet identifier.").eve("mqtt.pubrec.message_id"),
        field("pubrec_reason_code", Kind::Uint, "PUBREC: reason code (MQTT 5, 2.4).")
            .eve("mqtt.pubrec.reason_code"),
        field("pubrec_reason_string", Kind::Text, "PUBREC: property reason string.")
            .privacy(Privacy::Content),
        field("pubrel_qos", Kind::Uint, "PUBREL: quality of service in the fixed header, 0 to 2.")
            .eve("mqtt.pubrel.qos"),
        field("pubrel_retain", Kind::Bool, "PUBREL: retain flag of the fixed header.")
            .eve("mqtt.pubrel.retain"),
        field("pubrel_dup", Kind::Bool, "PUBREL: duplicate flag (DUP) of the fixed header.")
            .eve("mqtt.pubrel.dup"),
        field("pubrel_message_id", Kind::Uint, "PUBREL: packet identifier.").eve("mqtt.pubrel.message_id"),
        field("pubrel_reason_code", Kind::Uint, "PUBREL: reason code (MQTT 5, 2.4).")
            .eve("mqtt.pubrel.reason_code"),
        field("pubrel_reason_string", Kind::Text, "PUBREL: property reason string.")
            .privacy(Privacy::Content),
        field("pubcomp_qos", Kind::Uint, "PUBCOMP: quality of service in the fixed header, 0 to 2.")
            .eve("mqtt.pubcomp.qos"),
        field("pubcomp_retain", Kind::Bool, "PUBCOMP: retain flag of the fixed header.")
            .eve("mqtt.pubcomp.retain"),
        field("pubcomp_dup", Kind::Bool, "PUBCOMP: duplicate flag (DUP) of the fixed header.")
            .eve("mqtt.pubcomp.dup"),
        field("pubcomp_message_id", Kind::Uint, "PUBCOMP: packet identifier.").eve("mqtt.pubcomp.message_id"),
        field("pubcomp_reason_code", Kind::Uint, "PUBCOMP: reason code (MQTT 5, 2.4).")
            .eve("mqtt.pubcomp.reason_code"),
        field("pubcomp_reason_string", Kind::Text, "PUBCOMP: property reason string.")
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
        ),
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
        field(
            "unsuback_reason_codes",
            Kind::List(&Kind::Uint),
            "UNSUBACK: reason code of each topic (MQTT 5, 2.4).",
        )
        .eve("mqtt.unsuback.reason_codes"),
        field("unsuback_reason_string", Kind::Text, "UNSUBACK: property reason string.")
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
        field("disconnect_reason_code", Kind::Uint, "DISCONNECT: reason code (MQTT 5, 2.4).")
            .eve("mqtt.disconnect.reason_code"),
        field(
            "disconnect_session_expiry_interval",
            Kind::Uint,
            "DISCONNECT: property session expiry interval, in seconds.",
        )
        .eve("mqtt.disconnect.properties.session_expiry_interval"),
        field("disconnect_reason_string", Kind::Text, "DISCONNECT: property reason string.")
            .eve("mqtt.disconnect.properties.reason_string")
            .privacy(Privacy::Content),
        field("disconnect_server_reference", Kind::Text, "DISCONNECT: property server reference.")
            .eve("mqtt.disconnect.properties.server_reference")
            .privacy(Privacy::Name),
        field("auth_qos", Kind::Uint, "AUTH: quality of service in the fixed header, 0 to 2."),
        field("auth_retain", Kind::Bool, "AUTH: retain flag of the fixed header."),
        field("auth_dup", Kind::Bool, "AUTH: duplicate flag (DUP) of the fixed header."),
        field("auth_reason_code", Kind::Uint, "AUTH: reason code (MQTT 5, 2.4)."),
        field("auth_authentication_method", Kind::Text, "AUTH: property authentication method."),
        field("auth_authentication_data", Kind::Text, "AUTH: property authentication data.")
            .privacy(Privacy::Secret),
        field("auth_reason_string", Kind::Text, "AUTH: property reason string.").privacy(Privacy::Content),
        field("connect_user_properties", Kind::Rows(&NAMED), "CONNECT: user properties.")
            .eve("mqtt.connect.properties.*"),
        field("will_user_properties", Kind::Rows(&NAMED), "Will in CONNECT: user properties.")
            .eve("mqtt.connect.will.properties.*"),
        field("connack_user_properties", Kind::Rows(&NAMED), "CONNACK: user properties.")
            .eve("mqtt.connack.properties.*"),
        field("publish_user_properties", Kind::Rows(&NAMED), "PUBLISH: user properties.")
            .eve("mqtt.publish.properties.*"),
        field("disconnect_user_properties", Kind::Rows(&NAMED), "DISCONNECT: user properties.")
            .eve("mqtt.disconnect.properties.*"),
        field("user_properties", Kind::Rows(&PAIRS), "User properties of the other messages."),
    ],
};

/// First column of each message type, by its number; each begins with quality of service, retain and duplicate flag.
pub(super) const BEGIN: [usize; 16] = [
    MQTT.at("connect_qos"),
    MQTT.at("connect_qos"),
    MQTT.at("connack_qos"),
    MQTT.at("publish_qos"),
    MQTT.at("puback_qos"),
    MQTT.at("pubrec_qos"),
    MQTT.at("pubrel_qos"),
    MQTT.at("pubcomp_qos"),
    MQTT.at("subscribe_qos"),
    MQTT.at("suback_qos"),
    MQTT.at("unsubscribe_qos"),
    MQTT.at("unsuback_qos"),
    MQTT.at("pingreq_qos"),
    MQTT.at("pingresp_qos"),
    MQTT.at("disconnect_qos"),
    MQTT.at("auth_qos"),
];

pub(super) const CONNECT_PROTOCOL_STRING: usize = MQTT.at("connect_protocol_string");
pub(super) const CONNECT_PROTOCOL_VERSION: usize = MQTT.at("connect_protocol_version");
pub(super) const CONNECT_HAS_USERNAME: usize = MQTT.at("connect_has_username");
pub(super) const CONNECT_HAS_PASSWORD: usize = MQTT.at("connect_has_password");
pub(super) const CONNECT_HAS_WILL: usize = MQTT.at("connect_has_will");
pub(super) const CONNECT_WILL_RETAIN: usize = MQTT.at("connect_will_retain");
pub(super) const CONNECT_CLEAN_SESSION: usize = MQTT.at("connect_clean_session");
pub(super) const CONNECT_KEEP_ALIVE: usize = MQTT.at("connect_keep_alive");
pub(super) const CONNECT_CLIENT_ID: usize = MQTT.at("connect_client_id");
pub(super) const CONNECT_USERNAME: usize = MQTT.at("connect_username");
pub(super) const CONNECT_PASSWORD: usize = MQTT.at("connect_password");
pub(super) const CONNECT_WILL_TOPIC: usize = MQTT.at("connect_will_topic");
pub(super) const CONNECT_WILL_MESSAGE: usize = MQTT.at("connect_will_message");
pub(super) const CONNACK_SESSION_PRESENT: usize = MQTT.at("connack_session_present");
pub(super) const CONNACK_RETURN_CODE: usize = MQTT.at("connack_return_code");
pub(super) const PUBLISH_RETAIN: usize = MQTT.at("publish_retain");
pub(super) const PUBLISH_TOPIC: usize = MQTT.at("publish_topic");
pub(super) const PUBLISH_MESSAGE_ID: usize = MQTT.at("publish_message_id");
pub(super) const PUBLISH_MESSAGE: usize = MQTT.at("publish_message");
pub(super) const PUBLISH_BYTES: usize = MQTT.at("publish_bytes");
pub(super) const PUBLISH_TRUNCATED: usize = MQTT.at("publish_truncated");
pub(super) const PUBLISH_SIZE: usize = MQTT.at("publish_size");
pub(super) const SUBSCRIBE_MESSAGE_ID: usize = MQTT.at("subscribe_message_id");
pub(super) const SUBSCRIBE_TOPICS: usize = MQTT.at("subscribe_topics");
pub(super) const SUBACK_MESSAGE_ID: usize = MQTT.at("suback_message_id");
pub(super) const SUBACK_QOS_GRANTED: usize = MQTT.at("suback_qos_granted");
pub(super) const UNSUBSCRIBE_MESSAGE_ID: usize = MQTT.at("unsubscribe_message_id");
pub(super) const UNSUBSCRIBE_TOPICS: usize = MQTT.at("unsubscribe_topics");
pub(super) const UNSUBACK_MESSAGE_ID: usize = MQTT.at("unsuback_message_id");
pub(super) const UNSUBACK_REASON_CODES: usize = MQTT.at("unsuback_reason_codes");
pub(super) const DISCONNECT_REASON_CODE: usize = MQTT.at("disconnect_reason_code");
pub(super) const AUTH_REASON_CODE: usize = MQTT.at("auth_reason_code");
pub(super) const USER_PROPERTIES: usize = MQTT.at("user_properties");
pub(super) const WIDTH: usize = MQTT.fields.len();

/// The property that a message can have several times: a name and a value (MQTT 5, section 2.2.2.2).
pub(super) const USER_PROPERTY: u8 = 38;

/// Column of a property of a message type; type 0 is a will.
pub(super) const PROPERTIES: [(u8, u8, usize); 55] = [
    (0, USER_PROPERTY, MQTT.at("will_user_properties")),
    (1, USER_PROPERTY, MQTT.at("connect_user_properties")),
    (2, USER_PROPERTY, MQTT.at("connack_user_properties")),
    (3, USER_PROPERTY, MQTT.at("publish_user_properties")),
    (14, USER_PROPERTY, MQTT.at("disconnect_user_properties")),
    (1, 17, MQTT.at("connect_session_expiry_interval")),
    (1, 33, MQTT.at("connect_receive_maximum")),
    (1, 39, MQTT.at("connect_maximum_packet_size")),
    (1, 34, MQTT.at("connect_topic_alias_maximum")),
    (1, 25, MQTT.at("connect_request_response_information")),
    (1, 23, MQTT.at("connect_request_problem_information")),
    (1, 21, MQTT.at("connect_authentication_method")),
    (1, 22, MQTT.at("connect_authentication_data")),
    (0, 1, MQTT.at("will_payload_format_indicator")),
    (0, 2, MQTT.at("will_message_expiry_interval")),
    (0, 3, MQTT.at("will_content_type")),
    (0, 8, MQTT.at("will_response_topic")),
    (0, 9, MQTT.at("will_correlation_data")),
    (0, 24, MQTT.at("will_will_delay_interval")),
    (2, 17, MQTT.at("connack_session_expiry_interval")),
    (2, 33, MQTT.at("connack_receive_maximum")),
    (2, 36, MQTT.at("connack_maximum_qos")),
    (2, 37, MQTT.at("connack_retain_available")),
    (2, 39, MQTT.at("connack_maximum_packet_size")),
    (2, 18, MQTT.at("connack_assigned_client_identifier")),
    (2, 34, MQTT.at("connack_topic_alias_maximum")),
    (2, 31, MQTT.at("connack_reason_string")),
    (2, 40, MQTT.at("connack_wildcard_subscription_available")),
    (2, 41, MQTT.at("connack_subscription_identifiers_available")),
    (2, 42, MQTT.at("connack_shared_subscription_available")),
    (2, 19, MQTT.at("connack_server_keep_alive")),
    (2, 26, MQTT.at("connack_response_information")),
    (2, 28, MQTT.at("connack_server_reference")),
    (2, 21, MQTT.at("connack_authentication_method")),
    (2, 22, MQTT.at("connack_authentication_data")),
    (3, 1, MQTT.at("publish_payload_format_indicator")),
    (3, 2, MQTT.at("publish_message_expiry_interval")),
    (3, 35, MQTT.at("publish_topic_alias")),
    (3, 8, MQTT.at("publish_response_topic")),
    (3, 9, MQTT.at("publish_correlation_data")),
    (3, 11, MQTT.at("publish_subscription_identifier")),
    (3, 3, MQTT.at("publish_content_type")),
    (4, 31, MQTT.at("puback_reason_string")),
    (5, 31, MQTT.at("pubrec_reason_string")),
    (6, 31, MQTT.at("pubrel_reason_string")),
    (7, 31, MQTT.at("pubcomp_reason_string")),
    (8, 11, MQTT.at("subscribe_subscription_identifier")),
    (9, 31, MQTT.at("suback_reason_string")),
    (11, 31, MQTT.at("unsuback_reason_string")),
    (14, 17, MQTT.at("disconnect_session_expiry_interval")),
    (14, 31, MQTT.at("disconnect_reason_string")),
    (14, 28, MQTT.at("disconnect_server_reference")),
    (15, 21, MQTT.at("auth_authentication_method")),
    (15, 22, MQTT.at("auth_authentication_data")),
    (15, 31, MQTT.at("auth_reason_string")),
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
                eve.is_empty() || eve.starts_with(&format!("mqtt.{path}.properties.")),
                "{property} of {path} at {at}: {eve}"
            );
        }
    }
}
