//! What flags say about priorities.

use engine::Priorities;
use scheduler::PriorityRules;

use super::launch;

#[test]
fn priorities_follow_the_flags_of_sglang() {
    let rules = PriorityRules {
        low_values_first: false,
        preemption_threshold: Some(10),
        retract_least_important: false,
    };
    let cases = [
        ("", rules),
        (
            "--schedule-low-priority-values-first --priority-scheduling-preemption-threshold 3",
            PriorityRules {
                low_values_first: true,
                preemption_threshold: Some(3),
                ..rules
            },
        ),
        (
            "--disable-priority-preemption --retraction-policy priority",
            PriorityRules {
                preemption_threshold: None,
                retract_least_important: true,
                ..rules
            },
        ),
    ];
    for (line, expected) in cases {
        let launch = launch(&format!("--enable-priority-scheduling {line}")).unwrap();
        let found = launch.engine.scheduler.order.priorities();
        assert_eq!(found, Some(expected), "{line}");
        assert!(launch.notices.is_empty(), "{:?}", launch.notices);
    }
    let launch = launch("--default-priority-value -4 --abort-on-priority-when-disabled").unwrap();
    let expected = Priorities {
        default: Some(-4),
        refuse: true,
    };
    assert_eq!(launch.engine.priorities, expected);
    assert!(
        launch.notices[0]
            .reason
            .contains("--enable-priority-scheduling alone")
    );
}
