//! What an instance tells of the loads of its units.

/// The load of all units, and those of the heaviest, at most so many. A unit whose handler told none
/// counts as the mean of the others. 0 if none told any.
pub(super) fn told<U: Ord>(
    units: impl Iterator<Item = (U, Option<u32>)>,
    most: usize,
) -> (u64, Vec<(U, u32)>) {
    let (mut told, mut silent) = (Vec::new(), 0_u64);
    for (unit, load) in units {
        match load {
            Some(load) => told.push((load, unit)),
            None => silent += 1,
        }
    }
    let Ok(count @ 1..) = u64::try_from(told.len()) else {
        return (0, Vec::new());
    };
    let sum: u64 = told.iter().map(|(load, _)| u64::from(*load)).sum();
    told.sort_unstable_by(|one, other| other.cmp(one));
    let heavy = told.into_iter().take(most);
    let heavy = heavy.map(|(load, unit)| (unit, load)).collect();
    (sum + sum / count * silent, heavy)
}

#[cfg(test)]
mod tests {
    use super::told;

    #[test]
    fn silent_units_count_as_the_mean_and_the_heaviest_are_told_one_by_one() {
        let of = |loads: &[Option<u32>]| told((1..).zip(loads.iter().copied()), 2);
        assert_eq!(of(&[]), (0, vec![]));
        assert_eq!(of(&[None, None]), (0, vec![]));
        assert_eq!(of(&[Some(7), None]), (14, vec![(1, 7)]));
        let loads = [Some(1), Some(90), None, Some(50)];
        assert_eq!(of(&loads), (188, vec![(2, 90), (4, 50)]));
    }
}
