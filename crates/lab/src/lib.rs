//! Many runs: subjects, matrix, store, statistics, verdicts, reports.
