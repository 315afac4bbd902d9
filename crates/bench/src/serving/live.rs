//! The live view: what the load is doing while it does it.

use super::options::Options;
use super::surroundings::Surroundings;
use crate::client::Client;
use crate::load::Onlooker;
use crate::pace::LoadState;
use crate::record::RequestRecord;
use hdrhistogram::Histogram;
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Gauge, Paragraph, Row, Sparkline, Table};
use ratatui::{Frame, Terminal};
use std::collections::BTreeMap;
use std::io::{self, Stderr, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The view is drawn this often.
const REDRAW: Duration = Duration::from_millis(250);
/// The token rate is kept for this many draws.
const HISTORY: usize = 240;

/// A view on the terminal; standard output stays as it is.
pub(super) struct LiveView {
    terminal: Terminal<CrosstermBackend<Stderr>>,
    scene: Scene,
}

impl LiveView {
    /// The view on a load of `total` requests, when it was asked for and there is a terminal for it.
    pub(super) fn wanted(
        options: &Options,
        surroundings: &Surroundings<'_>,
        total: usize,
        client: &Client,
    ) -> Option<Self> {
        let wanted = options.own.switch("live") && surroundings.terminal;
        wanted.then(|| Self::open(total, client.tokens()).ok())?
    }

    /// Takes over the terminal. Interrupts keep working: the terminal stays in its usual mode.
    fn open(total: usize, tokens: Arc<AtomicU64>) -> io::Result<Self> {
        execute!(stderr(), EnterAlternateScreen, Hide)?;
        let terminal = Terminal::new(CrosstermBackend::new(stderr()))?;
        Ok(Self {
            terminal,
            scene: Scene::new(total, tokens),
        })
    }
}

impl Drop for LiveView {
    /// Gives the terminal back.
    fn drop(&mut self) {
        execute!(stderr(), Show, LeaveAlternateScreen).ok();
    }
}

impl Onlooker for LiveView {
    fn finished(&mut self, record: &RequestRecord, state: &LoadState) {
        self.scene.take_in(record);
        if self.scene.drawn.elapsed() >= REDRAW {
            self.scene.tick(state, None);
            draw(&mut self.terminal, &self.scene);
        }
    }

    fn patience(&self) -> Duration {
        REDRAW
    }

    fn look(&mut self, state: &LoadState, waiting: usize) {
        self.scene.tick(state, Some(waiting));
        draw(&mut self.terminal, &self.scene);
    }
}

fn draw<B: Backend>(terminal: &mut Terminal<B>, scene: &Scene) {
    // A terminal that cannot be drawn on is no reason to end a run.
    terminal.draw(|frame| scene.paint(frame)).ok();
}

/// What the view shows.
struct Scene {
    total: usize,
    started: Instant,
    drawn: Instant,
    tokens: Arc<AtomicU64>,
    tokens_before: u64,
    finished_before: usize,
    token_rates: Vec<u64>,
    request_rate: f64,
    state: LoadState,
    waiting: usize,
    times: [(&'static str, Histogram<u64>); 3],
    failures: BTreeMap<String, usize>,
}

impl Scene {
    fn new(total: usize, tokens: Arc<AtomicU64>) -> Self {
        let histogram =
            || Histogram::new_with_bounds(1, 86_400_000_000, 3).expect("the bounds are in order");
        let tokens_before = tokens.load(Ordering::Relaxed);
        Self {
            total,
            started: Instant::now(),
            drawn: Instant::now(),
            tokens,
            tokens_before,
            finished_before: 0,
            token_rates: Vec::new(),
            request_rate: 0.0,
            state: LoadState::default(),
            waiting: 0,
            times: [
                ("TTFT", histogram()),
                ("TPOT", histogram()),
                ("E2E", histogram()),
            ],
            failures: BTreeMap::new(),
        }
    }

    fn take_in(&mut self, record: &RequestRecord) {
        if let Some(failure) = &record.failure {
            *self.failures.entry(failure.name()).or_default() += 1;
            return;
        }
        let micros = |seconds: f64| (seconds * 1e6) as u64;
        let [(_, ttft), (_, tpot), (_, e2e)] = &mut self.times;
        e2e.saturating_record(micros(record.finished.seconds_since(record.sent)));
        let (Some(first), Some(last)) = (record.chunks.first(), record.chunks.last()) else {
            return;
        };
        ttft.saturating_record(micros(first.at.seconds_since(record.sent)));
        let tokens = record
            .usage
            .output_tokens
            .unwrap_or(record.chunks.len() as u64);
        if tokens > 1 {
            let per_token = last.at.seconds_since(first.at) / (tokens - 1) as f64;
            tpot.saturating_record(micros(per_token));
        }
    }

    fn tick(&mut self, state: &LoadState, waiting: Option<usize>) {
        let seconds = self.drawn.elapsed().as_secs_f64().max(1e-3);
        self.drawn = Instant::now();
        let tokens = self.tokens.load(Ordering::Relaxed);
        let rate = (tokens - self.tokens_before) as f64 / seconds;
        self.tokens_before = tokens;
        self.token_rates.push(rate as u64);
        if self.token_rates.len() > HISTORY {
            self.token_rates.remove(0);
        }
        let requests = (state.finished - self.finished_before.min(state.finished)) as f64 / seconds;
        self.finished_before = state.finished;
        self.request_rate = 0.2 * requests + 0.8 * self.request_rate;
        self.state = *state;
        self.waiting = waiting.unwrap_or(self.waiting);
    }

    fn paint(&self, frame: &mut Frame<'_>) {
        let [head, gauge, numbers, graph, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(7),
            Constraint::Min(5),
            Constraint::Length(2 + self.failures.len().clamp(1, 6) as u16),
        ])
        .areas(frame.area());
        let elapsed = self.started.elapsed().as_secs();
        let title = format!(
            " peregrine bench serving   {:02}:{:02}",
            elapsed / 60,
            elapsed % 60
        );
        let bold = Style::default().add_modifier(Modifier::BOLD);
        frame.render_widget(Line::styled(title, bold), head);
        let share = self.state.finished as f64 / self.total.max(1) as f64;
        let label = match self.total {
            0 => self.state.finished.to_string(),
            total => format!("{} / {total}", self.state.finished),
        };
        let bar = Gauge::default().ratio(share.clamp(0.0, 1.0)).label(label);
        frame.render_widget(bar.gauge_style(Style::default().fg(Color::Cyan)), gauge);
        let [left, right] =
            Layout::horizontal([Constraint::Length(34), Constraint::Min(40)]).areas(numbers);
        self.paint_load(frame, left);
        self.paint_times(frame, right);
        let newest = self.token_rates.last().copied().unwrap_or(0);
        let block = Block::default()
            .borders(Borders::ALL)
            .title(format!(" {newest} tokens/s "));
        let width = graph.width.saturating_sub(2) as usize;
        let from = self.token_rates.len().saturating_sub(width);
        let spark = Sparkline::default()
            .block(block)
            .data(&self.token_rates[from..]);
        frame.render_widget(spark.style(Style::default().fg(Color::Green)), graph);
        self.paint_failures(frame, foot);
    }

    fn paint_load(&self, frame: &mut Frame<'_>, area: Rect) {
        let under_way = self.state.pending.saturating_sub(self.waiting);
        let line = |label: &str, value: String| Line::from(format!("{label:<18}{value:>12}"));
        let text = vec![
            line("requests/s", format!("{:.2}", self.request_rate)),
            line("tokens", self.tokens_before.to_string()),
            line("under way", under_way.to_string()),
            line("waiting", self.waiting.to_string()),
            line("failed", self.state.failed.to_string()),
        ];
        let block = Block::default().borders(Borders::ALL).title(" load ");
        frame.render_widget(Paragraph::new(text).block(block), area);
    }

    fn paint_times(&self, frame: &mut Frame<'_>, area: Rect) {
        let milliseconds = |times: &Histogram<u64>, share: f64| {
            format!("{:.1}", times.value_at_quantile(share) as f64 / 1e3)
        };
        let rows = self.times.iter().map(|(name, times)| {
            let cells = [0.5, 0.9, 0.99].map(|share| Cell::from(milliseconds(times, share)));
            Row::new(std::iter::once(Cell::from(*name)).chain(cells))
        });
        let widths = [
            Constraint::Length(6),
            Constraint::Length(11),
            Constraint::Length(11),
            Constraint::Length(11),
        ];
        let head =
            Row::new(["ms", "p50", "p90", "p99"]).style(Style::default().fg(Color::DarkGray));
        let block = Block::default().borders(Borders::ALL).title(" times ");
        frame.render_widget(Table::new(rows, widths).header(head).block(block), area);
    }

    fn paint_failures(&self, frame: &mut Frame<'_>, area: Rect) {
        let red = Style::default().fg(Color::Red);
        let mut lines: Vec<Line<'_>> = self
            .failures
            .iter()
            .map(|(name, count)| Line::from(Span::styled(format!("{count:>6} × {name}"), red)))
            .collect();
        if lines.is_empty() {
            lines.push(Line::from("none"));
        }
        let block = Block::default().borders(Borders::ALL).title(" failures ");
        frame.render_widget(Paragraph::new(lines).block(block), area);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Nanos;
    use crate::record::{Asked, Chunk, Due, Failure};
    use ratatui::backend::TestBackend;

    fn record(failure: Option<Failure>) -> RequestRecord {
        let sent = Nanos(1_000_000_000);
        let mut record = RequestRecord::begun(0, 0, Due::at(sent), sent, Asked::default());
        record.chunks = [1.2, 1.3, 1.4]
            .iter()
            .map(|seconds: &f64| Chunk {
                at: Nanos((seconds * 1e9) as u64),
                tokens: 0,
                text_end: 0,
            })
            .collect();
        record.finished = Nanos(1_400_000_000);
        record.failure = failure;
        record
    }

    #[test]
    fn the_view_shows_load_times_and_failures() {
        let tokens = Arc::new(AtomicU64::new(0));
        let mut scene = Scene::new(40, Arc::clone(&tokens));
        for _ in 0..9 {
            scene.take_in(&record(None));
        }
        scene.take_in(&record(Some(Failure::Cut)));
        tokens.store(123, Ordering::Relaxed);
        let state = LoadState {
            finished: 10,
            failed: 1,
            pending: 7,
            ..LoadState::default()
        };
        scene.tick(&state, Some(2));
        let mut terminal = Terminal::new(TestBackend::new(80, 18)).unwrap();
        terminal.draw(|frame| scene.paint(frame)).unwrap();
        let text = terminal.backend().to_string();
        for words in [
            "10 / 40",
            "tokens                     123",
            "under way                    5",
            "waiting                      2",
            "TTFT   200.",
            "TPOT   100.",
            "E2E    400.",
            "1 × connection closed early",
        ] {
            assert!(text.contains(words), "{words:?} in\n{text}");
        }
    }
}
