//! The live view: what the load is doing while it does it.

mod paint;
mod scene;

use super::options::Options;
use super::surroundings::Surroundings;
use crate::client::Client;
use crate::load::Onlooker;
use crate::pace::LoadState;
use crate::record::RequestRecord;
use ratatui::Terminal;
use ratatui::backend::{Backend, CrosstermBackend};
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen};
use scene::Scene;
use std::io::{self, Stderr, stderr};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// The view is drawn this often.
const REDRAW: Duration = Duration::from_millis(250);

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
        if self.scene.age() >= REDRAW {
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
