//! What priorities do.

use engine::Priorities;
use scheduler::PriorityRules;

use super::{ConfigError, Resolver, out_of_range};

/// Flags that say something about priorities, which count with `--enable-priority-scheduling` alone.
const ABOUT_PRIORITIES: &[&str] = &[
    "schedule-low-priority-values-first",
    "default-priority-value",
    "priority-scheduling-preemption-threshold",
    "disable-priority-preemption",
];

impl Resolver<'_> {
    /// The rules of `--enable-priority-scheduling`.
    pub(super) fn priority_rules(&mut self) -> Result<PriorityRules, ConfigError> {
        let policy = self.parsed.text("schedule-policy").unwrap_or("fcfs");
        if self.parsed.given("schedule-policy") && !matches!(policy, "fcfs" | "priority") {
            let reason = "among requests of one priority the first to come is the first to go";
            self.without_effect("--schedule-policy", reason);
        }
        let flag = "--priority-scheduling-preemption-threshold";
        let threshold = self.given(flag).unwrap_or(10);
        let range = "between 0 and 4294967295";
        let threshold =
            u32::try_from(threshold).map_err(|_| out_of_range(flag, threshold, range))?;
        let preempts = !self.parsed.switch("disable-priority-preemption");
        let rules = PriorityRules {
            low_values_first: self.parsed.switch("schedule-low-priority-values-first"),
            preemption_threshold: preempts.then_some(threshold),
            retract_least_important: self.parsed.text("retraction-policy") == Some("priority"),
        };
        let name = "priority_scheduling_preemption_threshold";
        match rules.preemption_threshold {
            None => self.note(name, "unlimited", "--disable-priority-preemption"),
            Some(threshold) if self.parsed.given(flag.trim_start_matches('-')) => {
                self.note(name, threshold, "given");
            }
            Some(threshold) => self.note(name, threshold, "default"),
        }
        Ok(rules)
    }

    /// What becomes of priorities before anything is ordered by them.
    pub(super) fn priorities(&mut self) -> Result<Priorities, ConfigError> {
        let enabled = self.parsed.switch("enable-priority-scheduling");
        let idle = ABOUT_PRIORITIES.iter().filter(|_| !enabled);
        for flag in idle.filter(|flag| self.parsed.given(flag)) {
            let reason = "priorities count with --enable-priority-scheduling alone";
            self.without_effect(&format!("--{flag}"), reason);
        }
        let flag = "--default-priority-value";
        let default = self.given(flag).map(|value| {
            let range = "between -2147483648 and 2147483647";
            i32::try_from(value).map_err(|_| out_of_range(flag, value, range))
        });
        Ok(Priorities {
            default: default.transpose()?,
            refuse: !enabled && self.parsed.switch("abort-on-priority-when-disabled"),
        })
    }
}
