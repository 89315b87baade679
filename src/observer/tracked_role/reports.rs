//! What is reported of a role's state.

use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::{Doubt, Now, Reported, TrackedRole};
use crate::observer::observed::{Change, ChangeCause, Observed, RoleChange, Standing};
use nats_elect_core::Moment;
use nats_elect_core::name::RoleName;
use nats_elect_core::record::Content;
use nats_elect_core::status::LeaderInfo;
use nats_elect_core::token::FencingToken;

impl TrackedRole {
    fn stands(&self, now: Moment) -> Reported {
        let nobody = |standing| Reported {
            standing,
            leader: None,
        };
        let Some(entry) = &self.key.entry else {
            return nobody(Self::nothing(self.known));
        };
        match (&entry.content, self.doubt) {
            (Content::Release(release), _) if release.heir.is_some() => {
                nobody(Standing::HandedOver)
            }
            (Content::Release(_), _) => nobody(Standing::Released),
            (Content::ForeignMarker, _) => nobody(Standing::Deleted),
            (_, Doubt::Expired) => nobody(Standing::Expired),
            (_, Doubt::Unseen) => nobody(Standing::Unknown),
            (content, Doubt::None) => {
                let leader = LeaderInfo::shown_by(content);
                match self.signatures.told(leader, now) {
                    None => nobody(Standing::Untrusted),
                    leader => Reported {
                        standing: Standing::Led,
                        leader,
                    },
                }
            }
        }
    }

    /// Brings the reported state up to date. Returns the change, if there is one. `server` is the
    /// time by the server's clock.
    pub fn settle(&mut self, role: &RoleName, server: SystemTime, now: Now) -> Option<Change> {
        let new = self.stands(now.clock);
        self.unled_since = if new.leader.is_some() {
            None
        } else {
            let ended = || self.leader_ended(new.standing, server);
            Some(self.unled_since.unwrap_or_else(ended))
        };
        let is_same = new.standing == self.told.standing
            && new.leader.as_ref().map(who) == self.told.leader.as_ref().map(who);
        let old = std::mem::replace(&mut self.told, new);
        if is_same {
            return None;
        }
        let cause = self.cause(&old);
        let is_new = matches!(cause, ChangeCause::Claimed | ChangeCause::HandedOver);
        if self.told.leader.is_some() {
            self.heir = None;
            self.last_leader = None;
        } else if old.leader.is_some() && self.known {
            self.last_leader.clone_from(&old.leader);
        }
        Some(Change::Role(Box::new(RoleChange {
            role: role.as_str().to_owned(),
            from: old.leader,
            to: self.told.leader.clone(),
            standing: self.told.standing,
            cause,
            silence: self.silence.filter(|_| is_new),
            at: now.wall,
        })))
    }

    /// Returns since when no leader is known, as the stream has it: since the end of the last lease,
    /// or since the marker that freed the role. `server` is the time by the server's clock.
    fn leader_ended(&self, standing: Standing, server: SystemTime) -> SystemTime {
        let ended = match &self.key.entry {
            // Nothing tells when the key was removed, or since when a record is not trusted.
            None => server,
            Some(_) if standing == Standing::Untrusted => self.key.written,
            Some(_) if self.holder().is_some() => self.key.written + self.lease(),
            Some(_) => self.key.written,
        };
        ended.min(server)
    }

    fn cause(&self, old: &Reported) -> ChangeCause {
        let leader = self.told.leader.as_ref();
        let incarnation = leader.and_then(|one| one.incarnation);
        let is_seen_again = old.standing == Standing::Unknown
            && leader.map(who) == self.last_leader.as_ref().map(who);
        match self.told.standing {
            Standing::Led if !self.confirmed || is_seen_again => ChangeCause::Found,
            Standing::Led if incarnation.is_some() && incarnation == self.heir => {
                ChangeCause::HandedOver
            }
            Standing::Led => ChangeCause::Claimed,
            Standing::Untrusted => ChangeCause::Untrusted,
            Standing::Released | Standing::HandedOver => ChangeCause::Released,
            Standing::Expired => ChangeCause::Expired,
            Standing::Unknown if self.known => ChangeCause::LostSight,
            Standing::Unknown => ChangeCause::BucketReplaced,
            Standing::Unclaimed
                if old.standing == Standing::Unknown && self.last_leader.is_none() =>
            {
                ChangeCause::Found
            }
            Standing::Deleted | Standing::Unclaimed => ChangeCause::Deleted,
        }
    }

    pub const fn told(&self) -> &Reported {
        &self.told
    }

    /// Returns the leader, if it was seen alive.
    pub fn confirmed_leader(&self) -> Option<&LeaderInfo> {
        self.told.leader.as_ref().filter(|_| self.confirmed)
    }

    /// `server` is the time by the server's clock, as far as it is known.
    pub fn observed(
        &self,
        epoch: Option<u64>,
        server: Option<SystemTime>,
        now: Moment,
    ) -> Observed {
        let leads = self.told.leader.is_some();
        let held = self.holder().is_some();
        let age = now.since(self.received);
        let remaining = leads.then(|| self.lease().saturating_sub(age));
        let fencing_token = epoch.and_then(|epoch| self.fencing_token(epoch));
        let is_its = |token: &FencingToken| {
            let fence = self.fence.entry.map(|fence| fence.revision);
            fence == Some(token.sequence)
        };
        let term_began = fencing_token.filter(is_its).map(|_| self.fence.written);
        let ago = |time: SystemTime| Some(server?.duration_since(time).unwrap_or_default());
        let alive = leads && self.confirmed && remaining != Some(Duration::ZERO);
        let unled_since = self.unled_since.or_else(|| {
            let ended = server.map(|server| self.leader_ended(self.told.standing, server));
            ended.filter(|_| self.key.entry.is_some())
        });
        Observed {
            standing: self.told.standing,
            leader: self.told.leader.clone(),
            confirmed: leads && self.confirmed,
            since: ago(term_began.unwrap_or(self.led_since)).filter(|_| leads),
            since_at: if leads { term_began } else { self.unled_since },
            unled: unled_since.filter(|_| !alive).and_then(ago),
            fencing_token,
            revision: self.key.entry.as_ref().map(|entry| entry.revision),
            ttl: self.lease.or_else(|| self.fence.entry?.record?.ttl),
            age: held.then_some(age),
            remaining,
            opaque: matches!(self.holder(), Some(Content::Opaque)),
            distrust: self.distrust.filter(|_| held && !leads),
            last_leader: self.last_leader.clone().filter(|_| !leads),
        }
    }

    fn fencing_token(&self, epoch: u64) -> Option<FencingToken> {
        let leader = self.told.leader.as_ref()?;
        if self.signatures.is_required() {
            return self.signatures.fencing_token();
        }
        let fence = self.fence.entry?;
        let is_its = fence.nonce()?.incarnation == leader.incarnation?;
        let is_new = self.claimed_at.is_none_or(|claim| fence.revision > claim);
        (is_its && is_new).then_some(FencingToken {
            epoch,
            sequence: fence.revision,
        })
    }
}

fn who(leader: &LeaderInfo) -> (Option<Uuid>, &str) {
    (leader.incarnation, &leader.instance_id)
}
