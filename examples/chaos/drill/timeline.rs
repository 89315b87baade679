//! The drill as a picture: time from left to right; above what went wrong, below who led.

use super::checker::{Evidence, Verdict};
use super::clock::Moment;
use super::fault::{Fault, Kind, Subject};
use super::plan::NODES;
use super::shards::chart::Chart;
use super::shards::ownership::Ownership;
use super::svg::{Anchor, Place, Svg};

const LEFT: f64 = 110.0;
const RIGHT: f64 = 80.0;
const TOP: f64 = 84.0;
const LANE: f64 = 17.0;
const BLOCK: f64 = 26.0;
/// The height of a shard's row.
const ROW: f64 = 4.0;

/// Draws it as SVG.
pub fn draw(evidence: &Evidence, verdict: &Verdict) -> String {
    let notes = &evidence.notes;
    let length = notes.ended.since(notes.begun).as_secs_f64().max(1.0);
    let scale = (1500.0 / length).clamp(7.0, 40.0);
    let instances = notes.instances.len();
    // Headings, and the lanes: servers, roles' keys, instances' faults; per role one for each
    // instance and one for gaps; of the group one for its faults and one for each instance, and its
    // shards' rows.
    let lanes = NODES + 2 + notes.roles.len() + instances + notes.roles.len() * (instances + 1);
    let blocks = 3 + notes.roles.len();
    let of_group = evidence.shards.as_ref().map_or(0.0, |shards| {
        #[allow(clippy::cast_precision_loss)] // Some dozens.
        let lanes = (instances + 1) as f64;
        BLOCK + lanes * LANE + f64::from(shards.shards) * ROW
    });
    let width = LEFT + length * scale + RIGHT;
    #[allow(clippy::cast_precision_loss)] // Some dozens.
    let height = TOP + lanes as f64 * LANE + blocks as f64 * BLOCK + of_group + 40.0;
    let mut page = Page {
        svg: Svg::new(width, height),
        begun: notes.begun,
        length,
        scale,
        y: TOP,
    };
    page.head(evidence, verdict);
    let (top, bottom) = (TOP, height - 34.0);
    page.grid(top, bottom);
    page.faults(evidence);
    for role in &notes.roles {
        page.role(evidence, verdict, &role.name);
    }
    if let Some(shards) = &evidence.shards {
        page.group(evidence, shards);
    }
    page.svg.finish()
}

struct Page {
    svg: Svg,
    begun: Moment,
    length: f64,
    scale: f64,
    /// Where the next lane begins.
    y: f64,
}

impl Page {
    fn x(&self, moment: Moment) -> f64 {
        let seconds = moment.since(self.begun).as_secs_f64();
        LEFT + seconds.min(self.length) * self.scale
    }

    /// From one time to another in the current lane, and wide enough to be seen.
    fn span(&self, from: Moment, to: Moment, inset: f64) -> Place {
        let x = self.x(from);
        Place {
            x,
            y: self.y + inset,
            width: (self.x(to) - x).max(1.5),
            height: LANE - 2.0 * inset,
        }
    }

    fn head(&mut self, evidence: &Evidence, verdict: &Verdict) {
        let notes = &evidence.notes;
        let title = format!(
            "Seed {}: {} instances, {} faults, {} terms — {verdict}",
            notes.seed,
            notes.instances.len(),
            notes.faults.len(),
            verdict.terms
        );
        self.svg.text((LEFT, 22.0), 15, Anchor::Start, &title);
        let mut at = (LEFT, 34.0);
        for (colours, what) in LEGEND {
            // About the width of its letters.
            #[allow(clippy::cast_precision_loss)]
            let width = 34.0 + 6.0 * what.len() as f64;
            if at.0 + width > self.svg.width() {
                at = (LEFT, at.1 + 16.0);
            }
            for (part, colour) in colours.iter().enumerate() {
                let place = Place {
                    x: at.0 + if part == 0 { 0.0 } else { 10.0 },
                    y: at.1,
                    width: if colours.len() == 1 { 20.0 } else { 10.0 },
                    height: 10.0,
                };
                self.svg.area(place, colour, "");
            }
            let text = (at.0 + 25.0, at.1 + 9.0);
            self.svg.text(text, 11, Anchor::Start, what);
            at.0 += width;
        }
    }

    /// A line each five seconds, with its time where there is room.
    fn grid(&mut self, top: f64, bottom: f64) {
        let mut second = 0.0;
        while second <= self.length {
            let x = LEFT + second * self.scale;
            self.svg.line((x, top), (x, bottom), "#e4e4e4");
            let label = format!("{second:.0} s");
            self.svg.text((x, top - 4.0), 10, Anchor::Middle, &label);
            self.svg
                .text((x, bottom + 13.0), 10, Anchor::Middle, &label);
            second += if self.scale < 20.0 { 10.0 } else { 5.0 };
        }
    }

    fn heading(&mut self, text: &str) {
        self.y += BLOCK;
        self.svg.text((8.0, self.y - 7.0), 12, Anchor::Start, text);
    }

    fn lane(&mut self, name: &str) {
        let place = Place {
            x: LEFT,
            y: self.y + 1.0,
            width: self.length * self.scale,
            height: LANE - 2.0,
        };
        self.svg.area(place, "#00000009", "");
        self.svg
            .text((LEFT - 6.0, self.y + 12.0), 11, Anchor::End, name);
        let right = (place.x + place.width + 6.0, self.y + 12.0);
        self.svg.text(right, 11, Anchor::Start, name);
    }

    fn faults(&mut self, evidence: &Evidence) {
        let notes = &evidence.notes;
        let draw_lane = |page: &mut Self, name: &str, is_here: &dyn Fn(&Fault) -> bool| {
            page.lane(name);
            page.marks(evidence, is_here);
        };
        self.heading("Faults of NATS");
        for node in 1..=NODES {
            let name = format!("nats-{node}");
            draw_lane(self, &name, &|fault: &Fault| {
                let hit = fault.target == name || fault.target == "all";
                fault.kind.subject() == Subject::Server && hit
            });
        }
        draw_lane(self, "stream", &|fault: &Fault| {
            fault.kind.subject() == Subject::Stream
        });
        self.lane("no writes");
        for (from, until) in &notes.outages {
            let told = format!("NATS confirmed no write until {}", evidence.time(*until));
            let place = self.span(*from, *until, 3.0);
            self.svg.area(place, NO_LEADER, &told);
        }
        self.y += LANE;
        self.heading("Faults of roles");
        for role in &notes.roles {
            draw_lane(self, &role.name, &|fault: &Fault| {
                fault.kind.subject() == Subject::Role && fault.target == role.name
            });
        }
        self.heading("Faults of instances");
        for name in &notes.instances {
            draw_lane(self, name, &|fault: &Fault| {
                let subject = fault.kind.subject();
                matches!(subject, Subject::Process | Subject::Network) && fault.target == *name
            });
        }
    }

    /// The faults of the current lane.
    fn marks(&mut self, evidence: &Evidence, is_here: &dyn Fn(&Fault) -> bool) {
        for fault in &evidence.notes.faults {
            if fault.is_done() && is_here(fault) {
                self.fault(fault);
            }
        }
        self.y += LANE;
    }

    fn fault(&mut self, fault: &Fault) {
        // A process and its network may suffer at one time: one above the other.
        let inset = 1.5;
        let mut place = self.span(fault.from, fault.until, inset);
        match fault.kind.subject() {
            Subject::Process => place.height /= 2.0,
            Subject::Network => {
                place.height /= 2.0;
                place.y += place.height;
            }
            _ => {}
        }
        let told = format!(
            "{} {} at {:.1} s for {:.1} s",
            fault.kind,
            fault.target,
            fault.from.since(self.begun).as_secs_f64(),
            fault.until.since(fault.from).as_secs_f64()
        );
        self.svg.area(place, colour_of(fault.kind), &told);
        let label = (
            place.x + place.width + 1.5,
            place.y + place.height / 2.0 + 3.0,
        );
        let size = if place.height < 10.0 { 8 } else { 9 };
        self.svg.text(label, size, Anchor::Start, fault.kind.code());
    }

    fn role(&mut self, evidence: &Evidence, verdict: &Verdict, name: &str) {
        let notes = &evidence.notes;
        let Some(role) = notes.roles.iter().find(|role| role.name == name) else {
            return;
        };
        let ttl = role.ttl.as_secs_f64();
        self.heading(&format!("Role {name}, ttl {ttl} s"));
        let terms = evidence.terms_of(role);
        for instance in &notes.instances {
            self.lane(instance);
            self.shade(evidence, instance);
            for (index, (term, (first, last))) in terms.iter().enumerate() {
                if term.instance != *instance || *first > notes.ended {
                    continue;
                }
                let colour = TERMS[index % 2];
                let told = format!(
                    "{name}: {instance}, process {}, token {}, from {} to {}",
                    term.process,
                    term.token,
                    evidence.time(*first),
                    evidence.time(*last)
                );
                let place = self.span(*first, *last, 3.0);
                self.svg.area(place, colour, &told);
            }
            self.y += LANE;
        }
        self.lane("no leader");
        for gap in verdict.gaps.iter().filter(|gap| gap.role == name) {
            let causes = gap.causes.iter().chain(&gap.company);
            let causes: Vec<_> = causes.map(|kind| kind.name()).collect();
            let told = format!(
                "{name}: no leader for {:.2} s: {}",
                gap.length().as_secs_f64(),
                causes.join(", ")
            );
            let place = self.span(gap.from, gap.to, 3.0);
            self.svg.area(place, NO_LEADER, &told);
            if gap.length().as_secs_f64() >= 1.0 && place.width > 18.0 {
                let middle = (place.x + place.width / 2.0, self.y + LANE + 7.0);
                let label = format!("{:.1}", gap.length().as_secs_f64());
                self.svg.text(middle, 8, Anchor::Middle, &label);
            }
        }
        self.y += LANE;
    }

    /// How many shards each instance owned, and a row per shard in the colour of its owner.
    fn group(&mut self, evidence: &Evidence, shards: &Ownership) {
        let notes = &evidence.notes;
        self.heading(&format!("Group of {} shards", shards.shards));
        self.lane("keys");
        self.marks(evidence, &|fault| fault.kind.subject() == Subject::Group);
        let left = (notes.begun, LEFT);
        let right = (notes.ended, LEFT + self.length * self.scale);
        let chart = Chart::new(shards, left, right);
        for (index, instance) in notes.instances.iter().enumerate() {
            self.lane(instance);
            self.shade(evidence, instance);
            let room = (self.y + LANE - 2.0, LANE - 4.0);
            chart.lane(&mut self.svg, index, room, 2.0);
            self.y += LANE;
        }
        chart.rows(&mut self.svg, self.y, ROW);
        self.svg
            .text((LEFT - 6.0, self.y + 12.0), 11, Anchor::End, "shards");
    }

    /// Where an instance suffers, so that one sees why its bars end.
    fn shade(&mut self, evidence: &Evidence, instance: &str) {
        for fault in &evidence.notes.faults {
            let subject = fault.kind.subject();
            let of_instance = matches!(subject, Subject::Process | Subject::Network);
            if of_instance && fault.is_done() && fault.target == instance {
                let place = self.span(fault.from, fault.until, 1.0);
                self.svg.area(place, SUFFERS, "");
            }
        }
    }
}

const TERMS: [&str; 2] = ["#2e7d4f", "#5fae7f"];
const NO_LEADER: &str = "#d93025";
const SUFFERS: &str = "#f4b40055";
const LEGEND: [(&[&str], &str); 11] = [
    (&TERMS, "a term each"),
    (&[NO_LEADER], "no leader, in seconds; NATS takes no writes"),
    (&[SUFFERS], "the instance suffers"),
    (
        &[colour_of(Kind::Kill)],
        "K killed, KL: the stream's leader",
    ),
    (&[colour_of(Kind::PauseLong)], "P stands still"),
    (
        &[colour_of(Kind::Restart)],
        "R restarted, RA: all, L lame duck",
    ),
    (
        &[colour_of(Kind::Deaf)],
        "B cut off, D hears nothing, M is not heard",
    ),
    (&[colour_of(Kind::Reset)], "X connections reset"),
    (
        &[colour_of(Kind::Slow)],
        "S slow, A confirmations lost, FA account full, FD disk full",
    ),
    (
        &[colour_of(Kind::StepDown)],
        "SD step down, mv stream moved, new bucket created anew; key: del deleted, pur purged, for overwritten",
    ),
    (
        &[colour_of(Kind::PurgeUnit)],
        "of the group: u unit, m member, g group; d deleted, p purged, f overwritten",
    ),
];

const fn colour_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Kill | Kind::KillServer | Kind::KillStreamLeader => "#b3261e",
        Kind::PauseShort | Kind::PauseLong | Kind::PauseServer => "#7b4bb7",
        Kind::Restart | Kind::RestartServer | Kind::LameDuck | Kind::RestartAll => "#1f6fb5",
        Kind::BlackHole | Kind::Deaf | Kind::Mute => "#3c4043",
        Kind::Reset => "#8d6e63",
        Kind::Slow | Kind::AcksLost | Kind::FullAccount | Kind::FullDisk => "#c98a00",
        Kind::StepDown
        | Kind::DeleteKey
        | Kind::PurgeKey
        | Kind::ForeignRecord
        | Kind::DeleteUnit
        | Kind::PurgeUnit
        | Kind::ForeignUnit
        | Kind::PurgeMember
        | Kind::ForeignMember
        | Kind::PurgeGroup
        | Kind::MoveStream
        | Kind::RecreateBucket => "#c2185b",
    }
}
