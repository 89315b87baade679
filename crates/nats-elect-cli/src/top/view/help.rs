//! What all of it means.

use ratatui::text::Line;

use crate::top::look::Look;

const TEXT: &str = "\
\x20 q, Ctrl-C            quit
  up, down, j, k       select a role; PgUp, PgDn, Home, End, g, G go further
  /                    show only roles whose name or leader matches the text
  Esc                  show all roles again
  ?                    this page
  LEADER     the leader; a ? means not seen alive yet, perhaps an old record
  LEASE      time until it ends if no heartbeat comes, as seen from here
  FOR        how long the leader has led, or at least has
  HEARTBEAT  how long the leader's last heartbeat took, by its own report
  TOKEN      the end of the fencing token; the selected role shows all of it

  Roles that are not known to be led come first.

  Leaders, leases and groups come from the bucket. Candidates and HEARTBEAT
  are reports of the instances. Neither proves that an instance may act.
";

pub fn lines(look: Look) -> Vec<Line<'static>> {
    let mut lines = vec![super::rule(look, 80, "Help", "? closes it")];
    lines.extend(TEXT.lines().map(Line::raw));
    lines
}
