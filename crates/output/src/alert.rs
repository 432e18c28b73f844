//! The ends of the packet in which a rule matched.

use std::net::IpAddr;
use weir_engine::FlowIdentity;
use weir_proto::Record;

/// The source and the destination of the packet, each with the number that the flow has there: a port, or a type of ICMP.
pub fn ends(flow: &FlowIdentity, record: &Record<'_>) -> [(IpAddr, u16); 2] {
    let (initiator, responder) = (flow.initiator(), flow.responder());
    if *record.get("direction") == "to_client".into() {
        [responder, initiator]
    } else {
        [initiator, responder]
    }
}

/// The type and the code of the packet, if it is of ICMP. Requests and their replies have code 0: another code belongs to a flow
/// of one direction.
pub fn icmp(flow: &FlowIdentity, record: &Record<'_>) -> Option<[u16; 2]> {
    let [(_, kind), (_, code)] = ends(flow, record);
    matches!(flow.key.proto, 1 | 58).then(|| [kind, if flow.key.is_one_way() { code } else { 0 }])
}

#[cfg(test)]
mod tests {
    use crate::{OUTPUTS, OutputContext, fixtures};
    use std::fs;
    use std::path::Path;
    use weir_proto::Record;

    /// Writes the record into every log of lines that has alerts.
    fn write(directory: &Path, record: &Record<'_>) {
        let context = OutputContext { directory: directory.to_owned(), ..OutputContext::default() };
        for spec in OUTPUTS.iter().filter(|spec| spec.name != "parquet" && (spec.has)(&weir_proto::ALERT)) {
            let mut output = (spec.open)(&context).unwrap();
            output.record(&fixtures::identity(), record).unwrap();
            output.finish().unwrap();
        }
    }

    fn lines(directory: &Path, file: &str) -> Vec<String> {
        let text = fs::read_to_string(directory.join(file)).unwrap();
        assert!(text.ends_with('\n'), "{file}");
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_log_of_records_has_the_alert() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &fixtures::alert("a \"b\", c"));
        let flow = fixtures::identity();
        let (uid, community) = (crate::row::uid(flow.id()), flow.community_id(0).to_string());

        let log = lines(folder.path(), "alert.log");
        let columns = "action\tgid\tsid\trev\tsignature\tcategory\tseverity\treference\tmetadata\tdirection\tapp_proto\ttx_id\t\
                       buffers\tfound_in\tat_end\torig_pkts\tresp_pkts\torig_bytes\tresp_bytes\ttunnel\ttunnel_src\ttunnel_src_port\ttunnel_dst\ttunnel_dst_port\ttunnel_proto\tpayload\tpacket\tlink";
        assert_eq!(
            log[6],
            format!("#fields\tts\tuid\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\t{columns}\tcommunity_id")
        );
        assert_eq!(
            log[7],
            "#types\ttime\tstring\taddr\tport\taddr\tport\tstring\tcount\tcount\tcount\tstring\tstring\tcount\tvector[string]\t\
             vector[string]\tstring\tstring\tcount\tvector[string]\tstring\tbool\tcount\tcount\tcount\tcount\tstring\taddr\tcount\taddr\tcount\tcount\tstring\tstring\tcount\tstring"
        );
        assert_eq!(
            log[8],
            format!(
                "1795225568.992000\t{uid}\t10.0.0.5\t40000\t192.0.2.1\t443\tallowed\t1\t2009187\t4\ta \"b\", c\t\
                 Web Application Attack\t3\turl\\x2cexample.org,cve\\x2c2021-44228\t\
                 created_at 2010_07_30,tag one two,tag three\tto_client\tdce_rpc\t2\t-\tstream\tF\t3\t2\t400\t150\t-\t-\t-\t-\t-\t-\ta\"b\\x0d\\x0a\\x00\\xff\t\\x0f\\x00\\x08\\x00\t104\t{community}"
            )
        );
        assert_eq!(
            lines(folder.path(), "alert.json"),
            [format!(
                r#"{{"ts":1795225568.992000,"uid":"{uid}","id.orig_h":"10.0.0.5","id.orig_p":40000,"id.resp_h":"192.0.2.1","id.resp_p":443,"action":"allowed","gid":1,"sid":2009187,"rev":4,"signature":"a \"b\", c","category":"Web Application Attack","severity":3,"reference":["url,example.org","cve,2021-44228"],"metadata":["created_at 2010_07_30","tag one two","tag three"],"direction":"to_client","app_proto":"dce_rpc","tx_id":2,"found_in":"stream","at_end":false,"orig_pkts":3,"resp_pkts":2,"orig_bytes":400,"resp_bytes":150,"payload":"a\"b\r\n\u0000\\xff","packet":"\u000f\u0000\b\u0000","link":104,"community_id":"{community}"}}"#
            )]
        );
        // Zeek's notice for a signature, with the flow and the packet's ends.
        let notice = lines(folder.path(), "notice.log");
        assert_eq!(
            notice[8],
            format!(
                "1795225568.992000\t{uid}\t10.0.0.5\t40000\t192.0.2.1\t443\t-\t-\t-\ttcp\tSignatures::Sensitive_Signature\t\
                 a \"b\", c\t1:2009187:4\t192.0.2.1\t10.0.0.5\t40000\t-\t-\tNotice::ACTION_LOG\t-\t-\t-\t-\t-\t-\t-"
            )
        );
        let notice: serde_json::Value =
            serde_json::from_str(&lines(folder.path(), "notice.json")[0]).unwrap();
        assert_eq!((&notice["uid"], &notice["sub"]), (&uid.clone().into(), &"1:2009187:4".into()));
        let csv = lines(folder.path(), "alert.csv");
        assert_eq!(
            csv[0],
            format!(
                "time,uid,community_id,source,source_port,destination,destination_port,{}",
                columns.replace('\t', ",")
            )
        );
        assert_eq!(
            csv[1],
            format!(
                "2026-11-21T01:46:08.992000000Z,{uid},{community},10.0.0.5,40000,192.0.2.1,443,allowed,1,2009187,4,\
                 \"a \"\"b\"\", c\",Web Application Attack,3,\"url,example.org cve,2021-44228\",\
                 created_at 2010_07_30 tag one two tag three,to_client,dce_rpc,2,,stream,false,3,2,400,150,,,,,,,\"a\"\"b\\x0d\\x0a\\x00\\xff\",\\x0f\\x00\\x08\\x00,104"
            )
        );
        assert_eq!(
            lines(folder.path(), "alert.txt"),
            [
                "2026-11-21T01:46:08.992000000Z 10.0.0.5 > 192.0.2.1".to_owned(),
                format!("  tcp 40000 > 443  {uid}"),
                "  alert action=allowed gid=1 sid=2009187 rev=4 signature=\"a \\\"b\\\", c\" \
                 category=\"Web Application Attack\" severity=3 reference=\"url,example.org cve,2021-44228\" \
                 metadata=\"created_at 2010_07_30 tag one two tag three\" direction=to_client app_proto=dce_rpc tx_id=2 \
                 found_in=stream at_end=false orig_pkts=3 resp_pkts=2 orig_bytes=400 resp_bytes=150 payload=\"a\\\"b\\x0d\\x0a\\x00\\\\xff\" packet=\"\\x0f\\x00\\x08\\x00\" link=104"
                    .to_owned(),
            ]
        );
        assert_eq!(
            lines(folder.path(), "fast.log"),
            [
                "11/21/2026-01:46:08.992000  [**] [1:2009187:4] a \"b\", c [**] [Classification: Web Application Attack] \
              [Priority: 3] {TCP} 192.0.2.1:443 -> 10.0.0.5:40000"
            ]
        );
    }

    #[test]
    fn a_hostile_message_keeps_every_line_whole() {
        let hostile = "\"'\\,\t\r\n\u{85}\u{2028}\u{202e}\u{1b}[31m\0{}[**]".repeat(300);
        assert!(hostile.len() > 8_000);
        let [plain, folder] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        write(plain.path(), &fixtures::alert("x"));
        write(folder.path(), &fixtures::alert(&hostile));
        for file in [
            "alert.log",
            "alert.json",
            "alert.csv",
            "alert.txt",
            "eve.json",
            "fast.log",
            "notice.log",
            "notice.json",
        ] {
            let found = lines(folder.path(), file);
            assert_eq!(found.len(), lines(plain.path(), file).len(), "{file}");
            let is_json = file.ends_with("json");
            // A tab separates columns, and JSON escapes the control characters of ASCII.
            let has_tabs = ["alert.log", "notice.log"].contains(&file);
            let is_clean = |c: char| !c.is_control() || has_tabs && c == '\t' || is_json && c == '\u{85}';
            assert!(found.iter().flat_map(|line| line.chars()).all(is_clean), "{file}: {found:?}");
            if is_json {
                let value: serde_json::Value = serde_json::from_str(&found[0]).unwrap();
                let signature = match file {
                    "eve.json" => &value["alert"]["signature"],
                    "notice.json" => &value["msg"],
                    _ => &value["signature"],
                };
                let signature = signature.as_str().unwrap();
                assert!(signature.len() > 1_000 && hostile.starts_with(signature), "{file}");
            }
        }
        let columns = |line: &String| line.split('\t').count();
        let log = lines(folder.path(), "alert.log");
        assert_eq!(columns(&log[8]), columns(&log[6]) - 1);
    }
}
