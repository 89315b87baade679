//! Reads of all members of a group.

use super::*;

#[tokio::test]
async fn reads_of_all_members_miss_none_that_writes_meanwhile() {
    const MEMBERS: u8 = 20;
    const READS: usize = 30;
    let lab = Lab::new().await;
    lab.begin(&map(), Vec::new()).await;
    let kv = lab.kv().await;
    kv.put("_groups.shards.member.x", "x".into()).await.unwrap();
    let mut stands = Vec::new();
    for number in 0..MEMBERS {
        stands.push(
            lab.begin(&member(number), member_record(number, 1).to_json())
                .await,
        );
    }
    let writing = async {
        for beat in 2.. {
            for (number, at) in (0..MEMBERS).zip(&mut stands) {
                let record = member_record(number, beat).to_json();
                *at = lab.write(&member(number), *at, record).await.unwrap();
            }
        }
    };
    let reading = async {
        let mut before = 0;
        for _ in 0..READS {
            let found = lab.look_at_members().await;
            let epochs: BTreeSet<_> = found.iter().map(|it| it.epoch).collect();
            assert_eq!(epochs, (0..MEMBERS).map(epoch).collect());
            assert_eq!(found.len(), epochs.len());
            assert!(found.iter().all(|it| matches!(it.value, Value::Member(_))));
            // The end of a read is no earlier than its beginning.
            let last = found.iter().map(|it| it.sequence).max().unwrap();
            assert!(last >= before);
            before = last;
        }
    };
    tokio::select! {
        () = writing => {}
        () = reading => {}
    }
}

const FIRST: &str = "2026-11-05T10:20:30Z";
const SECOND: &str = "2026-11-05T10:20:31Z";

/// What a stand-in answers.
#[derive(Clone, Copy)]
enum Answer {
    /// The last value of all keys has this sequence.
    Last(u64),
    /// The first value after the former one: the key, its sequence and its beat.
    Next(u8, u64, u64),
    /// The first one is under a key that is not a member's.
    Strange(u64),
    /// There is no later one.
    NoNext,
    /// These keys are there, at this sequence of the stream.
    Listed(&'static [u8], u64),
    /// The last value of a key.
    Of(u8, u64, u64),
    Refusal(u64),
    /// The bucket was made at this time.
    Made(&'static str),
}

impl StandIn {
    /// Answers the next request, where `after` is the sequence of the last answer to one for the first
    /// value after another.
    async fn give(&mut self, answer: Answer, after: &mut u64) {
        if let Answer::Made(at) = answer {
            return self.tell_of_bucket(at).await;
        }
        let subject = |key: Key| format!("$KV.leaders.{key}");
        let all = "$KV.leaders._groups.shards.member.*";
        let next = json!({ "seq": *after + 1, "next_by_subj": all });
        let message = |subject: String, seq: u64, value: Vec<u8>| {
            let data = BASE64.encode(&value);
            json!({ "message": { "subject": subject, "seq": seq, "data": data, "time": FIRST } })
        };
        let of_member = |number, seq, beat| {
            let value = member_record(number, beat).to_json();
            message(subject(member(number)), seq, value)
        };
        let (expected, given) = match answer {
            Answer::Last(0) => (json!({ "last_by_subj": all }), serde_json::Value::Null),
            Answer::Last(seq) => (json!({ "last_by_subj": all }), of_member(1, seq, 0)),
            Answer::Next(number, seq, beat) => (next, of_member(number, seq, beat)),
            Answer::Strange(seq) => (next, message(all.replace('*', "x"), seq, Vec::new())),
            Answer::NoNext => (next, serde_json::Value::Null),
            Answer::Listed(numbers, last) => {
                let names = numbers.iter().map(|it| (subject(member(*it)), json!(1)));
                let mut names: serde_json::Map<_, _> = names.collect();
                names.insert(all.replace('*', "x"), json!(1));
                let state = json!({ "last_seq": last, "subjects": names });
                let info = json!({ "total": names.len(), "state": state });
                (json!({ "subjects_filter": all }), info)
            }
            Answer::Of(number, seq, beat) => {
                let asked = json!({ "last_by_subj": subject(member(number)) });
                (asked, of_member(number, seq, beat))
            }
            Answer::Refusal(code) => {
                let asked = self.next().await;
                return self.refuse(asked, code, "no").await;
            }
            Answer::Made(_) => unreachable!(),
        };
        if let Answer::Next(_, seq, _) | Answer::Strange(seq) = answer {
            *after = seq;
        }
        let asked = self.next().await;
        assert_eq!(asked.body(), expected);
        if given.is_null() {
            self.show(asked, None).await;
        } else {
            self.answer(asked, &given.to_string()).await;
        }
    }

    /// Reads all members with these answers.
    async fn read_members(
        &mut self,
        bucket: &Bucket,
        since: u64,
        answers: Vec<Answer>,
    ) -> Result<Vec<(Epoch, u64, Value)>, FailureKind> {
        let answering = async {
            let mut after = 0;
            for answer in answers {
                self.give(answer, &mut after).await;
            }
        };
        let (group, made) = (group(), bucket.info().unwrap().epoch);
        let reading = bucket.read_members(&group, made, since, TIMEOUT);
        let (read, ()) = tokio::join!(reading, answering);
        let read = read.map_err(|error| error.kind())?.into_iter();
        Ok(read.map(|it| (it.epoch, it.sequence, it.value)).collect())
    }
}

#[tokio::test]
async fn reads_of_all_members_find_each_or_fail_as_a_whole() {
    use Answer::{Last, Listed, Made, Next, NoNext, Of, Refusal, Strange};
    let mut stand_in = StandIn::new().await;
    let bucket = stand_in.bucket().await;
    let unavailable = || Err(StoreError::Unavailable(String::new()));
    let two = [Last(9), Next(1, 7, 1), Next(2, 9, 1)];
    for (what, since, answers, found) in [
        (
            "nobody",
            0,
            vec![Last(0), Listed(&[], 40), Made(FIRST)],
            Ok(vec![]),
        ),
        (
            "two, and one that writes meanwhile",
            9,
            vec![
                Last(9),
                Next(1, 7, 1),
                Strange(8),
                Next(2, 10, 1),
                Listed(&[1, 2], 12),
                Made(FIRST),
            ],
            Ok(vec![(1, 7, 1), (2, 10, 1)]),
        ),
        (
            "one that writes behind the others meanwhile, and one that joins",
            9,
            vec![
                Last(9),
                Next(2, 8, 1),
                Next(2, 11, 2),
                Listed(&[1, 2, 3], 13),
                Of(1, 14, 3),
                Of(3, 13, 1),
                Made(FIRST),
            ],
            Ok(vec![(1, 14, 3), (2, 11, 2), (3, 13, 1)]),
        ),
        (
            "no leader",
            9,
            [&two[..2], &[Refusal(10008)]].concat(),
            unavailable(),
        ),
        (
            "a leader that lags at first",
            10,
            [&two[..], &[Listed(&[1, 2], 9)]].concat(),
            unavailable(),
        ),
        (
            "one that lags in between",
            9,
            [&two[..2], &[NoNext]].concat(),
            unavailable(),
        ),
        (
            "one that lags at last",
            9,
            [&two[..], &[Listed(&[1], 8)]].concat(),
            unavailable(),
        ),
        (
            "one that had left a key out",
            9,
            [&two[..], &[Listed(&[1, 2, 3], 9), Of(3, 8, 1)]].concat(),
            unavailable(),
        ),
        (
            "no bucket",
            9,
            [&two[..2], &[Refusal(10059)]].concat(),
            Err(StoreError::BucketMissing {
                bucket: String::new(),
            }),
        ),
        (
            "another bucket",
            0,
            vec![Last(7), Next(1, 7, 1), Listed(&[1], 7), Made(SECOND)],
            unavailable(),
        ),
    ] {
        let read = stand_in.read_members(&bucket, since, answers).await;
        let found = found.map_err(|error| error.kind()).map(|found| {
            let found = found.into_iter();
            let found =
                found.map(|(number, at, beat)| (epoch(number), at, of_member(number, beat)));
            found.collect::<Vec<_>>()
        });
        assert_eq!(read, found, "{what}");
    }
}

#[tokio::test]
async fn reads_of_all_members_find_each_though_the_stream_changes_its_leader() {
    const MEMBERS: u8 = 50;
    let cluster = NatsCluster::start(3).unwrap();
    let client = connect(cluster.node(0)).await;
    let (bucket, info) = replicated(&client).await;
    let mut last = 0;
    for number in 0..MEMBERS {
        let (key, value) = (member(number), member_record(number, 1).to_json());
        last = eventually(TIMEOUT, "a node that knows the leader", async || {
            let value = value.clone();
            let written = bucket.write_assignment(&key, Over::Anything, value, None, TIMEOUT);
            written.await.ok()
        })
        .await;
    }
    let moving = async {
        for _ in 0..5 {
            let subject = "$JS.API.STREAM.LEADER.STEPDOWN.KV_leaders";
            eventually(TIMEOUT, "a change of the leader", async || {
                let moved = client.request(subject, "".into()).await.ok()?;
                let moved: serde_json::Value = serde_json::from_slice(&moved.payload).unwrap();
                (moved["success"] == true).then_some(())
            })
            .await;
        }
    };
    let group = group();
    let found = async || {
        let read = bucket.read_members(&group, info.epoch, last, TIMEOUT);
        match read.await {
            Ok(found) => {
                let epochs: Vec<_> = found.iter().map(|it| it.epoch).collect();
                assert_eq!(epochs, (0..MEMBERS).map(epoch).collect::<Vec<_>>());
                Some(())
            }
            Err(error) => {
                assert!(error.is_transient(), "{error:?}");
                None
            }
        }
    };
    let reading = async {
        loop {
            found().await;
        }
    };
    tokio::select! {
        () = moving => {}
        () = reading => {}
    }
    eventually(TIMEOUT, "all of them", found).await;
}
