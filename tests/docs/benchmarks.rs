//! The tables and plots of docs/benchmarks.md are drawn as they should be.

use std::time::Duration;

use super::report::plot::{Bar, Plot, label};
use super::report::sample::{ms, ratio};
use super::report::table::Table;
use super::report::template::fill;
use super::sample::Sample;

fn sample(values: impl IntoIterator<Item = u64>) -> Sample {
    let mut sample = Sample::default();
    for value in values {
        sample.add(Duration::from_millis(value));
    }
    sample
}

#[test]
fn shares_are_values_that_were_measured() {
    let few = sample([30, 10, 20]);
    assert_eq!(few.median(), Duration::from_millis(20));
    assert_eq!(few.p99(), Duration::from_millis(30));
    let many = sample((1..=200).rev());
    assert_eq!(many.median(), Duration::from_millis(100));
    assert_eq!(many.p99(), Duration::from_millis(198));
    assert_eq!(many.most(), Duration::from_millis(200));
    assert_eq!(many.rounds(), 200);
    assert_eq!(Sample::default().median(), Duration::ZERO);
}

#[test]
fn figures_have_the_digits_that_say_something() {
    assert_eq!(ms(Duration::from_micros(1_234)), "1.23");
    assert_eq!(ms(Duration::from_micros(1_813_400)), "1813");
    let (long, short) = (Duration::from_millis(3), Duration::from_millis(2));
    assert_eq!(ratio(long, short), "1.50");
    assert_eq!(ratio(long, Duration::ZERO), "–");
}

#[test]
fn a_table_is_readable_as_text_too() {
    let mut table = Table::new(["system", "median"]);
    table.row(["raw".to_owned(), "0.76".to_owned()]);
    table.row(["something long".to_owned(), "1234 – 5".to_owned()]);
    let expected = "\
| system         |   median |
| --- | ---: |
| raw            |     0.76 |
| something long | 1234 – 5 |
";
    assert_eq!(table.markdown(), expected);
}

#[test]
fn bars_grow_with_their_medians_and_stay_inside() {
    let bar = |name: &str, median, p99| Bar {
        name: name.to_owned(),
        median,
        p99,
        is_ours: name == "ours",
    };
    let mut plot = Plot::new("handoff < crash");
    plot.group(
        "all",
        vec![
            bar("ours", 1.0, 2.0),
            bar("slow", 100.0, 5_000.0),
            bar("none", 0.0, 0.0),
        ],
    );
    let svg = plot.svg();
    let widths: Vec<f64> = svg
        .split("<rect ")
        .skip(1)
        .map(|rect| rect.split("width=\"").nth(1).expect("a width"))
        .map(|rest| {
            rest.split('"')
                .next()
                .expect("its end")
                .parse()
                .expect("a number")
        })
        .collect();
    assert!(
        widths[1] > widths[0] && widths[0] >= widths[2],
        "{widths:?}"
    );
    assert!(
        widths.iter().all(|width| (1.0..=420.0).contains(width)),
        "{widths:?}"
    );
    assert!(svg.contains("handoff &lt; crash") && svg.contains("prefers-color-scheme:dark"));
}

#[test]
fn labels_are_short() {
    assert_eq!(label(1.234), "1.23 ms");
    assert_eq!(label(1000.0), "1 s");
    assert_eq!(label(0.1), "0.1 ms");
    assert_eq!(label(120.0), "120 ms");
    assert_eq!(label(14_250.0), "14.2 s");
}

#[test]
fn a_template_is_filled_to_the_last_gap() {
    let values = [
        ("date", "today\n".to_owned()),
        ("table", "| a |\n".to_owned()),
    ];
    let filled = fill("On {{date}}:\n\n{{table}}\n", &values);
    assert_eq!(filled, "On today:\n\n| a |\n");
}

#[test]
#[should_panic(expected = "nothing fills a gap")]
fn a_gap_that_nothing_fills_is_no_page() {
    fill("On {{date}}: {{table}}", &[("date", "today".to_owned())]);
}
