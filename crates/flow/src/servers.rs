//! Ports that servers use.

/// Whether servers of well-known protocols use this port: Zeek's `likely_server_ports`, from the protocols that it
/// analyses by default. It determines the responder of a flow whose beginning was not seen.
pub fn is_likely_server(proto: u8, port: u16) -> bool {
    match proto {
        6 => tcp(port),
        17 => udp(port),
        _ => false,
    }
}

fn tcp(port: u16) -> bool {
    matches!(
        port,
        21 | 22
            | 25
            | 53
            | 80
            | 81
            | 88
            | 102
            | 110
            | 135
            | 139
            | 143
            | 389
            | 443
            | 445
            | 502
            | 563
            | 585
            | 587
            | 614
            | 631
            | 636
            | 989
            | 990
            | 992
            | 993
            | 995
            | 1080
            | 1434
            | 1883
            | 2811
            | 3128
            | 3268
            | 3306
            | 3389
            | 5060
            | 5222
            | 5223
            | 5269
            | 5432
            | 6379
            | 6666..=6669 | 8000 | 8080 | 8888 | 20000
    )
}

fn udp(port: u16) -> bool {
    matches!(
        port,
        53 | 67
            | 88
            | 123
            | 137
            | 161
            | 162
            | 389
            | 443
            | 514
            | 1812
            | 2123
            | 2152
            | 3389
            | 3544
            | 4789
            | 5060
            | 5072
            | 5353
            | 5355
            | 6081
            | 20000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_of_a_protocol() {
        assert!(is_likely_server(6, 6667) && !is_likely_server(17, 6667));
        assert!(is_likely_server(17, 5353) && !is_likely_server(6, 5353) && !is_likely_server(132, 53));
    }
}
