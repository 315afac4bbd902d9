//! The engine over a fake executor: order, cancelling, limits, draining and a lost device.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use engine::{
    EngineConfig, EngineHandle, EngineThread, GenerateRequest, RecordingError, RequestError,
    StepFloor, TokenEvent, TokenStream,
};
use sampling::{Abort, FinishReason, SamplingParams};
use scheduler::{Mix, Order, PageSize, PriorityRules, Reuse, SchedulerConfig};
use testkit::fake_executor::FakeExecutor;

fn config(run_ahead: usize) -> EngineConfig {
    EngineConfig {
        scheduler: SchedulerConfig {
            pages: 512,
            page_size: PageSize::ONE,
            max_rows: 8,
            context_length: 256,
            chunk: 32,
            max_prefill_tokens: 64,
            max_step_scores: 1 << 20,
            run_ahead: run_ahead as u32,
            conservativeness: 1.0,
            order: Order::Arrival,
            mix: Mix::Mixed,
            reuse: Reuse::Prefixes,
        },
        run_ahead,
        context_length: 256,
        vocabulary: 1000,
        end_tokens: vec![999],
        max_waiting: 4096,
        priorities: engine::Priorities::default(),
        decode_log_interval: 40,
        largest_graph: 0,
        random_seed: 1,
        watchdog: None,
        floor: None,
    }
}

fn engine(run_ahead: usize) -> (EngineHandle, EngineThread) {
    engine::start(config(run_ahead), Box::new(FakeExecutor::counting(1000))).expect("a thread")
}

fn request(prompt: &[u32], tokens: u32) -> GenerateRequest {
    GenerateRequest {
        prompt: prompt.into(),
        params: Arc::new(SamplingParams::greedy(tokens)),
        choice: 0,
        log_probs: None,
        namespace: None,
        priority: None,
    }
}

async fn collect(
    engine: &EngineHandle,
    request: GenerateRequest,
) -> (Vec<u32>, Option<FinishReason>) {
    let mut stream = engine.generate(request).expect("accepted");
    let (mut tokens, mut finish) = (Vec::new(), None);
    while let Some(event) = stream.next().await {
        let TokenEvent::Progress(progress) = event else {
            panic!("{event:?}")
        };
        tokens.extend(progress.tokens);
        finish = progress.finish;
    }
    (tokens, finish)
}

#[tokio::test]
async fn tokens_follow_the_prompt_until_the_limit_at_any_depth_of_run_ahead() {
    for run_ahead in [1, 2, 4] {
        let (engine, thread) = engine(run_ahead);
        let (tokens, finish) = collect(&engine, request(&[10, 11, 12], 5)).await;
        assert_eq!(tokens, [13, 14, 15, 16, 17]);
        assert_eq!(finish, Some(FinishReason::Length));
        thread.stop().expect("a healthy end");
    }
}

#[tokio::test]
async fn an_end_token_ends_the_output_and_overshoot_is_not_seen() {
    let (engine, _thread) = engine(2);
    let (tokens, finish) = collect(&engine, request(&[995], 50)).await;
    assert_eq!(tokens, [996, 997, 998, 999]);
    assert_eq!(finish, Some(FinishReason::Stop { token: Some(999) }));
}

#[tokio::test]
async fn many_concurrent_requests_all_get_their_own_tokens() {
    let (engine, _thread) = engine(2);
    let tasks: Vec<_> = (0..200u32)
        .map(|i| {
            let engine = engine.clone();
            tokio::spawn(async move { (i, collect(&engine, request(&[i, i + 1], 20)).await.0) })
        })
        .collect();
    for task in tasks {
        let (i, tokens) = task.await.expect("no panic");
        assert_eq!(tokens, (i + 2..i + 22).collect::<Vec<_>>());
    }
    engine.idle().await;
    assert_eq!(engine.stats().scheduler.running, 0);
}

#[tokio::test]
async fn a_thousand_requests_of_which_half_go_away_leave_nothing_behind() {
    let (engine, _thread) = engine(2);
    let tasks: Vec<_> = (0..1000u32)
        .map(|i| {
            let engine = engine.clone();
            tokio::spawn(async move {
                let mut stream = engine
                    .generate(request(&[i % 900, 7, i % 31], 40))
                    .expect("accepted");
                let mut seen = 0;
                while let Some(TokenEvent::Progress(progress)) = stream.next().await {
                    seen += progress.tokens.len();
                    if i % 2 == 0 && seen > 3 {
                        return;
                    }
                }
                assert_eq!(seen, 40);
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("no panic");
    }
    engine.idle().await;
    assert!(
        engine.flush_cache().await,
        "nothing runs, so the cache can be emptied"
    );
    let stats = engine.stats().scheduler;
    assert_eq!(
        (
            stats.running,
            stats.waiting,
            stats.used_tokens,
            stats.evictable_tokens
        ),
        (0, 0, 0, 0)
    );
}

/// A model that waits for a permit before every token, and for none once nobody gives any.
fn gated() -> (Sender<()>, impl FnMut(&[u32]) -> u32 + Send + 'static) {
    let (gate, permits) = channel();
    let model = move |history: &[u32]| {
        let _ = permits.recv();
        history.len() as u32
    };
    (gate, model)
}

#[tokio::test]
async fn a_flush_waits_for_the_steps_of_sequences_that_have_ended_and_for_no_others() {
    // How many of two are gone when the flush comes.
    for gone in 0..=2 {
        let (gate, model) = gated();
        let executor = Box::new(FakeExecutor::new(model));
        let (engine, _thread) = engine::start(config(2), executor).expect("a thread");
        gate.send(()).expect("the model waits");
        let mut running = engine.generate(request(&[1], 200)).expect("accepted");
        running.next().await.expect("a first token");
        // From here on the engine is in the midst of a step, with another behind it.
        let waiting = engine.generate(request(&[2], 200)).expect("accepted");
        if gone > 0 {
            running.canceller().cancel();
        }
        if gone > 1 {
            waiting.canceller().cancel();
        }
        let (flushed, ()) = tokio::join!(engine.flush_cache(), async { drop(gate) });
        assert_eq!(flushed, gone == 2, "{gone} of two are gone");
    }
}

#[tokio::test]
async fn requests_that_can_never_fit_are_refused_at_once_naming_both_numbers() {
    let (engine, _thread) = engine(1);
    let refused = |prompt: &[u32], tokens| {
        engine
            .generate(request(prompt, tokens))
            .err()
            .expect("refused")
    };
    assert_eq!(refused(&[], 1), RequestError::EmptyPrompt);
    assert_eq!(
        refused(&[1; 300], 1).to_string(),
        "The input (300 tokens) is longer than the model's context length (256 tokens)."
    );
    assert!(
        refused(&[1; 200], 100)
            .to_string()
            .contains("maximum context length of 256 tokens. You requested a total of 300")
    );
    assert!(
        refused(&[5000], 1)
            .to_string()
            .contains("vocab size (1000)")
    );
}

#[tokio::test]
async fn a_full_queue_refuses_and_a_draining_engine_finishes_what_it_has() {
    let mut config = config(1);
    config.max_waiting = 0;
    let (full, _thread) =
        engine::start(config, Box::new(FakeExecutor::counting(1000))).expect("a thread");
    assert_eq!(
        full.generate(request(&[1], 1)).err(),
        Some(RequestError::QueueFull)
    );

    let (engine, thread) = engine(2);
    let running = tokio::spawn({
        let engine = engine.clone();
        let stream = engine.generate(request(&[1], 200)).expect("accepted");
        async move {
            let mut stream = stream;
            let mut tokens = 0;
            while let Some(TokenEvent::Progress(progress)) = stream.next().await {
                tokens += progress.tokens.len();
            }
            tokens
        }
    });
    engine.drain();
    assert_eq!(
        engine.generate(request(&[1], 1)).err(),
        Some(RequestError::ShuttingDown)
    );
    assert_eq!(running.await.expect("no panic"), 200);
    engine.idle().await;
    thread.stop().expect("a healthy end");
}

#[tokio::test]
async fn nobody_waits_beyond_the_limit_and_who_leaves_makes_room() {
    let (gate, model) = gated();
    let mut config = config(2);
    config.scheduler.max_rows = 1;
    config.max_waiting = 2;
    let executor = Box::new(FakeExecutor::new(model));
    let (engine, _thread) = engine::start(config, executor).expect("a thread");
    let ask = || engine.generate(request(&[1], 100));
    let waiting = async |wanted| {
        while engine.stats().scheduler.waiting != wanted {
            tokio::task::yield_now().await;
        }
    };
    let _running = ask().expect("accepted");
    while engine.stats().scheduler.running == 0 {
        tokio::task::yield_now().await;
    }
    // The first step runs until the gate lets a token through.
    let (first, _second) = (ask().expect("accepted"), ask().expect("accepted"));
    assert_eq!(ask().err(), Some(RequestError::QueueFull));
    gate.send(()).expect("the model waits");
    waiting(2).await;
    assert_eq!(ask().err(), Some(RequestError::QueueFull));
    drop(first);
    gate.send(()).expect("the model waits");
    waiting(1).await;
    let _third = ask().expect("accepted");
    assert_eq!(ask().err(), Some(RequestError::QueueFull));
    drop(gate);
}

#[tokio::test]
async fn a_full_queue_gives_the_place_of_the_least_important_to_a_more_important_one() {
    let (gate, model) = gated();
    let mut config = config(2);
    config.scheduler.max_rows = 1;
    config.scheduler.order = Order::Priority(PriorityRules::default());
    config.max_waiting = 1;
    config.priorities.default = Some(2);
    let executor = Box::new(FakeExecutor::new(model));
    let (engine, _thread) = engine::start(config, executor).expect("a thread");
    let ask = |priority| {
        let request = GenerateRequest {
            priority,
            ..request(&[1], 3)
        };
        engine.generate(request).expect("the engine thread decides")
    };
    let mut running = ask(Some(1));
    while engine.stats().scheduler.running == 0 {
        tokio::task::yield_now().await;
    }
    let mut displaced = ask(Some(1));
    // as important as who waits, then less so
    let mut refused = [ask(Some(1)), ask(Some(0))];
    // without a priority of its own: the server's
    let mut served = ask(None);
    for _ in 0..40 {
        gate.send(()).expect("the model waits");
    }
    let end = async |stream: &mut TokenStream| loop {
        match stream.next().await {
            Some(TokenEvent::Progress(progress)) if progress.finish.is_none() => {}
            Some(TokenEvent::Progress(progress)) => return progress.finish,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(
        end(&mut displaced).await,
        Some(FinishReason::Abort(Abort::Displaced))
    );
    for stream in &mut refused {
        assert_eq!(
            end(stream).await,
            Some(FinishReason::Abort(Abort::QueueFull))
        );
    }
    for stream in [&mut running, &mut served] {
        assert_eq!(end(stream).await, Some(FinishReason::Length));
    }
}

#[tokio::test]
async fn priorities_are_refused_where_none_counts_and_that_is_asked_for() {
    let mut config = config(2);
    config.priorities.refuse = true;
    let (engine, _thread) =
        engine::start(config, Box::new(FakeExecutor::counting(1000))).expect("a thread");
    let with = |priority| GenerateRequest {
        priority,
        ..request(&[1], 1)
    };
    assert_eq!(
        engine.generate(with(Some(0))).err(),
        Some(RequestError::PriorityDisabled)
    );
    assert!(engine.generate(with(None)).is_ok());
}

#[tokio::test]
async fn generating_steps_are_measured_beside_what_memory_allows() {
    let floor = StepFloor {
        weights: 1000,
        token: 10,
        bandwidth: 1e12,
    };
    let config = EngineConfig {
        floor: Some(floor),
        decode_log_interval: 4,
        ..config(2)
    };
    let (engine, thread) =
        engine::start(config, Box::new(FakeExecutor::counting(1000))).expect("a thread");
    let (tokens, _) = collect(&engine, request(&[10, 11, 12], 9)).await;
    assert_eq!(tokens.len(), 9);
    thread.stop().expect("a healthy end");
    let times = engine.step_times();
    // the first token comes with the prompt; a step planned ahead of the end may come on top
    let decode = times.decode;
    assert!(decode.steps == 8 || decode.steps == 9, "{decode:?}");
    let attended: u64 = (4..4 + decode.steps).sum();
    let expected = (1000.0 * decode.steps as f64 + 10.0 * attended as f64) / 1e12;
    assert!((decode.floor_seconds - expected).abs() < 1e-15);
    assert!(decode.share().is_some_and(|share| share < 1.0));
    assert_eq!(times.last_interval.steps, 4);
    assert_eq!(times.jitter.count(), decode.steps - 1);
    assert!(times.host.count() > 0);
}

#[tokio::test]
async fn one_recording_runs_at_a_time_and_only_one_that_runs_is_ended() {
    let (engine, thread) = engine(2);
    let starts = |engine: &EngineHandle| engine.start_profile(None).err();
    assert_eq!(engine.stop_profile(), Err(RecordingError::NotRunning));
    let first = engine.start_profile(None).expect("none runs");
    assert_eq!(starts(&engine.clone()), Some(RecordingError::Running));
    assert_eq!(engine.stop_profile(), Ok(()));
    assert_eq!(engine.stop_profile(), Err(RecordingError::NotRunning));
    // the device has one tracer, which may still be read
    assert_eq!(starts(&engine), Some(RecordingError::Ending));
    assert!(first.trace().await.is_some());
    let second = engine.start_profile(Some(3)).expect("none runs");
    assert_eq!(starts(&engine), Some(RecordingError::Running));
    let _ = collect(&engine, request(&[1, 2], 9)).await;
    // it ended by itself, as it would have been ended
    assert_eq!(engine.stop_profile(), Err(RecordingError::NotRunning));
    assert_eq!(starts(&engine), Some(RecordingError::Ending));
    assert!(second.trace().await.is_some());
    let third = engine.start_profile(None).expect("none runs");
    assert_eq!(engine.stop_profile(), Ok(()));
    assert!(third.trace().await.is_some());
    thread.stop().expect("a healthy end");
    assert_eq!(starts(&engine), Some(RecordingError::EngineGone));
}

#[tokio::test]
async fn a_lost_device_fails_running_requests_and_turns_health() {
    let executor = FakeExecutor::counting(1000).lost_after(3);
    let (engine, thread) = engine::start(config(2), Box::new(executor)).expect("a thread");
    let mut stream = engine.generate(request(&[1], 100)).expect("accepted");
    let mut last = None;
    while let Some(event) = stream.next().await {
        last = Some(event);
    }
    assert!(matches!(last, Some(TokenEvent::Failed(_))), "{last:?}");
    assert!(thread.stop().is_err());
    assert!(!engine.is_healthy());
    assert_eq!(
        engine.generate(request(&[1], 1)).err(),
        Some(RequestError::ShuttingDown)
    );
}

#[tokio::test]
async fn a_device_that_does_not_answer_is_lost_when_its_time_is_over() {
    let (gate, model) = gated();
    let patience = Duration::from_millis(500);
    let config = EngineConfig {
        watchdog: Some(patience),
        ..config(2)
    };
    let executor = Box::new(FakeExecutor::new(model));
    let (engine, thread) = engine::start(config, executor).expect("a thread");
    gate.send(()).expect("the model waits");
    let mut running = engine.generate(request(&[1], 200)).expect("accepted");
    let first = running.next().await;
    assert!(matches!(first, Some(TokenEvent::Progress(_))), "{first:?}");
    // From here on no step comes back, and the engine thread hears nobody.
    let mut unheard = engine.generate(request(&[2], 200)).expect("accepted");
    for stream in [&mut running, &mut unheard] {
        let Some(TokenEvent::Failed(failed)) = stream.next().await else {
            panic!("the device is lost")
        };
        let expected = "the device was lost: no step has come back for 500ms";
        assert_eq!(failed.message, expected);
        assert_eq!(stream.next().await, None);
    }
    assert!(!engine.is_healthy());
    assert_eq!(
        engine.generate(request(&[1], 1)).err(),
        Some(RequestError::ShuttingDown)
    );
    engine.idle().await;
    let ended = thread.stop().expect_err("the device is lost");
    assert_eq!(ended.message, "no step has come back for 500ms");
    drop(gate);
}

#[tokio::test]
async fn a_step_that_comes_back_too_late_does_not_change_the_reason() {
    let (gate, model) = gated();
    let config = EngineConfig {
        watchdog: Some(Duration::from_millis(200)),
        ..config(2)
    };
    let executor = Box::new(FakeExecutor::new(model));
    let (engine, thread) = engine::start(config, executor).expect("a thread");
    gate.send(()).expect("the model waits");
    let mut slow = engine.generate(request(&[1], 200)).expect("accepted");
    let ended = thread.stop().expect_err("the device is lost");
    assert_eq!(ended.message, "no step has come back for 200ms");
    drop(gate);
    // The engine thread has ended too when it hears nobody.
    assert!(!engine.flush_cache().await);
    // Progress, and what was told behind it, were never looked at before.
    let first = slow.next().await;
    assert!(matches!(first, Some(TokenEvent::Progress(_))), "{first:?}");
    let Some(TokenEvent::Failed(failed)) = slow.next().await else {
        panic!("the device is lost")
    };
    assert_eq!(
        failed.message,
        "the device was lost: no step has come back for 200ms"
    );
    assert_eq!(slow.next().await, None);
}
