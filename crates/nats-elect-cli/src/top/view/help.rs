//! What all of it means.

use ratatui::text::Line;

use crate::top::look::Look;

const TEXT: &str = "
  q, Ctrl-C            quit
  up, down, j, k       select a role; PgUp, PgDn, Home, End, g, G go further
  left, right, h, l    instances further to the left, to the right
  /                    show only roles whose name or leader has what is typed
  Esc                  show everything again
  s                    sort by name, leader, remaining lease, latest change
  p                    let the picture stand still, and go on
  ?                    this page

  LEADER     who leads; with a ? if not seen alive yet, which may be an old record
  TOKEN      the end of the fencing token; the selected role has all of it
  LEASE      time until it ends if no heartbeat comes, as seen from here
  CHANGES    how often somebody became the leader since the start; LAST: when
  HEARTBEAT  how long the leader's last heartbeat took, as it says itself

  Leaders and leases are seen in the bucket; the matrix and HEARTBEAT are what
  the instances say when they are asked. Neither proves that somebody may act.
";

pub fn lines(look: Look) -> Vec<Line<'static>> {
    let mut lines = vec![super::rule(look, 80, "Help", "? closes it")];
    lines.extend(TEXT.lines().map(Line::raw));
    lines
}
