//! Two applications that stand for one role, as the instances report it.

use std::collections::{BTreeMap, BTreeSet};

use crate::instances::Candidate;
use crate::text::joined;

/// Names the applications of each role that has several.
pub fn mixed(found: &[Candidate]) -> Vec<String> {
    let mut roles = BTreeMap::<_, BTreeMap<_, _>>::new();
    let reports = found
        .iter()
        .filter_map(|it| Some((&it.instance, it.report.as_ref().ok()?)));
    for (instance, report) in reports {
        for role in report.roles.keys() {
            if let Some(application) = &report.application {
                let of_role = roles.entry(role).or_default();
                of_role.entry(application).or_insert(&instance.instance_id);
            }
        }
    }
    roles.retain(|_, of_role| of_role.len() > 1);
    // Those that share one role mostly share others.
    let mut alike = BTreeMap::<_, BTreeSet<_>>::new();
    for (role, of_role) in roles {
        alike.entry(of_role).or_default().insert(role.as_str());
    }
    let words = alike.into_iter().map(|(applications, roles)| {
        let of = applications.iter();
        let of = joined(of.map(|(name, id)| format!("{name} ({id})")));
        let roles = joined(roles);
        format!("different applications stand for {roles}: {of}")
    });
    words.collect()
}
