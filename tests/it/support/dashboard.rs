//! The metrics of this process, as Prometheus would scrape them.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use nats_elect::METRICS;

/// One line of a scrape.
#[derive(Clone, Debug)]
pub struct Sample {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// What a scrape says.
#[derive(Clone, Debug)]
pub struct Scrape {
    pub text: String,
    pub kinds: BTreeMap<String, String>,
    pub samples: Vec<Sample>,
}

/// Records metrics from now on, if it does not yet.
pub fn install() {
    handle();
}

fn handle() -> &'static PrometheusHandle {
    static HANDLE: OnceLock<PrometheusHandle> = OnceLock::new();
    HANDLE.get_or_init(|| {
        let recorder = exporter().build_recorder();
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).expect("the only recorder");
        handle
    })
}

/// An exporter with fitting buckets for every histogram.
pub fn exporter() -> PrometheusBuilder {
    let histograms = METRICS.iter().filter(|it| !it.buckets.is_empty());
    histograms.fold(PrometheusBuilder::new(), |exporter, metric| {
        let name = Matcher::Full(metric.name.to_owned());
        exporter
            .set_buckets_for_metric(name, metric.buckets)
            .expect("buckets")
    })
}

impl Scrape {
    pub fn now() -> Self {
        let text = handle().render();
        let mut scrape = Self {
            text: text.clone(),
            kinds: BTreeMap::new(),
            samples: Vec::new(),
        };
        for line in text.lines() {
            if let Some(kind) = line.strip_prefix("# TYPE ") {
                let (name, kind) = kind.split_once(' ').expect("a kind");
                scrape.kinds.insert(name.to_owned(), kind.to_owned());
            } else if !line.is_empty() && !line.starts_with('#') {
                scrape.samples.push(Sample::parse(line));
            }
        }
        scrape
    }

    /// The samples of a metric on one instance; a histogram's are its counts.
    pub fn of(&self, metric: &str, instance: &str) -> Vec<&Sample> {
        let count = format!("{metric}_count");
        self.samples
            .iter()
            .filter(|sample| sample.name == metric || sample.name == count)
            .filter(|sample| {
                sample
                    .labels
                    .get("instance_id")
                    .is_some_and(|id| id == instance)
            })
            .collect()
    }

    /// The value of a metric on one instance, summed over the samples with that label.
    pub fn value(&self, metric: &str, instance: &str, label: Option<(&str, &str)>) -> f64 {
        self.of(metric, instance)
            .into_iter()
            .filter(|sample| {
                label
                    .is_none_or(|(key, value)| sample.labels.get(key).is_some_and(|it| it == value))
            })
            .map(|sample| sample.value)
            .sum()
    }
}

impl Sample {
    fn parse(line: &str) -> Self {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.strip_suffix('}').expect("an end of the labels");
        Self {
            name: name.to_owned(),
            labels: labels
                .split(',')
                .filter_map(|label| label.split_once('='))
                .map(|(key, value)| (key.to_owned(), value.trim_matches('"').to_owned()))
                .collect(),
            value: value.parse().expect("a number"),
        }
    }
}
