//! Messages with headers that no client can read. Whoever watches their keys loses the connection.

use data_encoding::BASE64;
use serde_json::json;

use super::examined::Examined;
use super::findings::Findings;
use crate::line::Answer;
use crate::text::clean;

/// More messages are not looked at.
const MOST: usize = 1000;

impl Examined<'_> {
    /// Names such messages under the keys of groups, and what removes them. Reads have headers as
    /// base64 in their answers, and so do not break.
    pub async fn unreadable(&self, findings: &mut Findings) {
        let bucket = self.bucket();
        let read = format!("$JS.API.STREAM.MSG.GET.KV_{bucket}");
        let keys = format!("$KV.{bucket}.");
        let mut at = 0;
        for _ in 0..MOST {
            let next = json!({ "seq": at + 1, "next_by_subj": format!("{keys}_groups.>") });
            let Answer::Json(answer) = self.line.ask(&read, &next).await else {
                return;
            };
            let message = &answer["message"];
            let (subject, sequence) = (message["subject"].as_str(), message["seq"].as_u64());
            let (Some(subject), Some(sequence)) = (subject, sequence) else {
                return;
            };
            at = sequence;
            if message["hdrs"].as_str().is_some_and(|it| !are_plain(it)) {
                let key = clean(subject.strip_prefix(&keys).unwrap_or(subject));
                findings.warn(
                    "groups",
                    format!("no client can read the headers of message {sequence} under {key:?}: it breaks each watch on that key"),
                    format!("find its writer; `nats kv del {bucket} {key}` removes it"),
                );
            }
        }
    }
}

/// Whether headers are as clients write them. Then each client can read them.
fn are_plain(encoded: &str) -> bool {
    let headers = BASE64.decode(encoded.as_bytes()).ok();
    let text = headers.and_then(|it| String::from_utf8(it).ok());
    let text = text.as_deref().unwrap_or_default();
    let lines = text.strip_prefix("NATS/1.0\r\n");
    let lines = lines.and_then(|it| it.strip_suffix("\r\n"));
    lines.is_some_and(|lines| lines.split_terminator("\r\n").all(is_plain))
}

fn is_plain(line: &str) -> bool {
    let Some((name, value)) = line.split_once(':') else {
        return false;
    };
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic());
    is_name && !value.contains(|c: char| c.is_control() && c != '\t')
}
