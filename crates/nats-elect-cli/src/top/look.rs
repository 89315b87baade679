//! Colours and signs.

use nats_elect::RoleState;
use nats_elect::admin::RoleReport;
use ratatui::style::{Color, Modifier, Style};

/// What the terminal can show.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub colours: bool,
}

impl Look {
    pub fn coloured(self, colour: Color) -> Style {
        if self.colours {
            Style::new().fg(colour)
        } else {
            Style::new()
        }
    }

    pub fn good(self) -> Style {
        self.coloured(Color::Green)
    }

    pub fn doubtful(self) -> Style {
        self.coloured(Color::Yellow)
    }

    /// To be seen without colours, too.
    pub fn bad(self) -> Style {
        self.coloured(Color::Red).add_modifier(Modifier::BOLD)
    }

    pub fn title(self) -> Style {
        self.coloured(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    pub fn faint(self) -> Style {
        self.coloured(Color::DarkGray)
    }

    /// What an instance says of its state in a role.
    pub fn state(self, says: &RoleReport) -> (String, Style) {
        let (sign, style) = match says.state {
            _ if says.healthy == Some(false) || says.failing.is_some() => ("✗", self.bad()),
            _ if says.paused => ("=", self.doubtful()),
            Some(RoleState::Leader) => ("●", self.good()),
            Some(RoleState::Follower) => ("○", Style::new()),
            Some(RoleState::Candidate) => ("◌", self.coloured(Color::Cyan)),
            Some(RoleState::Draining | RoleState::Demoted) => ("◐", self.doubtful()),
            Some(_) => ("·", self.faint()),
            None => ("?", self.doubtful()),
        };
        let state = says.state.map_or("not known", RoleState::as_str);
        let paused = if says.paused { ", paused" } else { "" };
        let failing = says.failing.map_or("", |_| ", failing");
        (format!("{sign} {state}{paused}{failing}"), style)
    }
}
