//! Prompts with pictures of random pixels.

mod base64;
mod jpeg;
mod png;
mod resolution;

pub use resolution::{NotAResolution, Resolution, Size};

use super::{Dataset, Prompt, Row, lengths, message, token_notes};
use crate::random::{NumpyRandom, Streams};
use crate::release::Release;
use crate::vocabulary::Vocabulary;
use jpeg::Picture;
use serde_json::{Value, json};

const QUALITY: u32 = 85;
/// What models call the token that stands for a part of a picture.
const PADS: [&str; 4] = [
    "<|image_pad|>",
    "<image>",
    "<|image|>",
    "<image_soft_token>",
];

/// The shape of prompts with pictures.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageRules {
    /// How many requests.
    pub count: usize,
    /// Pictures in each, or the most of them.
    pub images: u64,
    /// Whether the number of pictures is drawn.
    pub draw_images: bool,
    /// The longest text.
    pub input: u64,
    /// The longest answer.
    pub output: u64,
    /// The share of those below which no length falls.
    pub share: f64,
    /// The size of pictures.
    pub resolution: Resolution,
    /// How they are encoded.
    pub format: ImageFormat,
    /// Whether they are white.
    pub blank: bool,
    /// Whether the text is sent as it is, because the server has its own template.
    pub raw_text: bool,
    /// The seed both streams start from anew, in releases that do so.
    pub reseed: Option<u32>,
}

/// How pictures are encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageFormat {
    /// Baseline JPEG at quality 85.
    Jpeg,
    /// PNG, stored.
    Png,
}

impl ImageFormat {
    fn name(self) -> &'static str {
        match self {
            Self::Jpeg => "jpeg",
            Self::Png => "png",
        }
    }
}

impl ImageRules {
    pub(super) fn load(
        &self,
        streams: &mut Streams,
        vocabulary: &Vocabulary,
        release: Release,
    ) -> Dataset {
        if let Some(seed) = self.reseed {
            *streams = Streams::seeded(seed);
        }
        let counts: Vec<u64> = if self.draw_images {
            (0..self.count)
                .map(|_| streams.numpy.integer(1, self.images + 1))
                .collect()
        } else {
            vec![self.images; self.count]
        };
        let input = lengths::draw(&mut streams.numpy, self.input, self.share, self.count);
        let output = lengths::draw(&mut streams.numpy, self.output, self.share, self.count);
        let letters = letters(vocabulary, release);
        let mut rows = Vec::with_capacity(self.count);
        let mut sizes = Vec::new();
        for place in 0..self.count {
            let ids = streams.python.choices(&letters, input[place] as usize);
            let text = vocabulary.decode(&ids);
            let mut images = Vec::new();
            for _ in 0..counts[place] {
                let size = self.size(&mut streams.numpy);
                images.push(self.image(size, &mut streams.numpy));
                sizes.push(size);
            }
            rows.push(self.row(text, images, output[place], vocabulary));
        }
        let notes = self.notes(&rows, (&counts, &sizes), &input, release);
        Dataset {
            notes,
            ..Dataset::of(rows)
        }
    }

    fn size(&self, random: &mut NumpyRandom) -> Size {
        match self.resolution {
            Resolution::Fixed(size) => size,
            Resolution::Between(low, high) => Size {
                width: random.integer(low.width, high.width + 1),
                height: random.integer(low.height, high.height + 1),
            },
        }
    }

    /// One picture as a data address.
    fn image(&self, Size { width, height }: Size, random: &mut NumpyRandom) -> String {
        let bytes = (width * height * 3) as usize;
        let pixels: Vec<u8> = if self.blank {
            vec![255; bytes]
        } else {
            (0..bytes).map(|_| (random.unit() * 255.0) as u8).collect()
        };
        let picture = Picture {
            width: width as usize,
            height: height as usize,
            pixels: &pixels,
        };
        let encoded = match self.format {
            ImageFormat::Jpeg => jpeg::encode(&picture, QUALITY),
            ImageFormat::Png => png::encode(&picture),
        };
        format!(
            "data:image/{};base64,{}",
            self.format.name(),
            base64::text(&encoded)
        )
    }

    /// A row; how many tokens its pictures stand for only the server knows.
    fn row(&self, text: String, images: Vec<String>, output: u64, vocabulary: &Vocabulary) -> Row {
        let alone = vocabulary.render(&[message("user", &text)]);
        let tokens = match alone {
            Some(Ok(rendered)) => vocabulary.count(&rendered),
            _ => vocabulary.encode(&text).len(),
        };
        let prompt = if self.raw_text {
            text
        } else {
            placeholders(&text, &images, vocabulary)
        };
        let mut row = Row::new(Prompt::Text(prompt), tokens as u64, output);
        row.images = images;
        row
    }

    fn notes(
        &self,
        rows: &[Row],
        (counts, sizes): (&[u64], &[Size]),
        input: &[u64],
        release: Release,
    ) -> Vec<String> {
        let sum = |count: fn(&Row) -> u64| rows.iter().map(count).sum::<u64>();
        let prompts = sum(|row| row.asked.prompt_tokens);
        let mut notes = token_notes(prompts, sum(|row| row.asked.output_tokens));
        let mean = |total: u64| total as f64 / rows.len().max(1) as f64;
        if release.has(7) {
            let total: u64 = counts.iter().sum();
            notes.push(format!("#Total images: {total}"));
            notes.push(if self.draw_images {
                let (least, most) = (counts.iter().min(), counts.iter().max());
                format!(
                    "#Images per request: min={}, max={}, mean={:.2}",
                    least.unwrap_or(&0),
                    most.unwrap_or(&0),
                    mean(total)
                )
            } else {
                format!("#Images per request: {} (fixed)", self.images)
            });
        }
        if let Resolution::Between(..) = self.resolution {
            notes.push(spread(sizes));
        }
        if release.has(18) {
            let raw: u64 = input.iter().sum();
            notes.push("\n=== Token Breakdown (per request avg / total) ===".to_owned());
            for (label, total) in [
                ("Raw text prompt tokens (without overhead)", raw),
                ("Text prompt tokens (with chat template)", prompts),
                ("Text prompt overhead", prompts.saturating_sub(raw)),
                ("Vision tokens", 0),
            ] {
                notes.push(format!("  {label}: avg={:.1}, total={total}", mean(total)));
            }
        }
        let bytes: usize = rows
            .iter()
            .flat_map(|row| &row.images)
            .map(String::len)
            .sum();
        let content = if self.blank { "blank" } else { "random" };
        notes.push(format!(
            "\nCreated {} {content} {} images with average {} bytes per request",
            rows.len(),
            self.format.name(),
            bytes / rows.len().max(1)
        ));
        notes
    }
}

/// The extremes and means of drawn sizes.
fn spread(sizes: &[Size]) -> String {
    let widths = || sizes.iter().map(|size| size.width);
    let heights = || sizes.iter().map(|size| size.height);
    let mean = |sum: u64| sum as f64 / sizes.len().max(1) as f64;
    format!(
        "#Image resolution: min={}x{}, max={}x{}, mean={:.1}x{:.1}",
        widths().min().unwrap_or(0),
        heights().min().unwrap_or(0),
        widths().max().unwrap_or(0),
        heights().max().unwrap_or(0),
        mean(widths().sum()),
        mean(heights().sum()),
    )
}

/// Tokens that texts are drawn from: none that stand for pictures, later none that mark anything.
fn letters(vocabulary: &Vocabulary, release: Release) -> Vec<u32> {
    let pads: Vec<u32> = PADS
        .iter()
        .filter_map(|pad| vocabulary.token_id(pad))
        .collect();
    let marks = release.has(14);
    vocabulary
        .ids()
        .iter()
        .copied()
        .filter(|id| !pads.contains(id))
        .filter(|id| !marks || !vocabulary.is_mark(*id))
        .collect()
}

/// The text in the chat template, with a placeholder for each picture.
fn placeholders(text: &str, images: &[String], vocabulary: &Vocabulary) -> String {
    let mut parts: Vec<Value> = images.iter().map(|_| json!({ "type": "image" })).collect();
    parts.push(json!({ "type": "text", "text": text }));
    match vocabulary.render(&[json!({ "role": "user", "content": parts })]) {
        Some(Ok(rendered)) => rendered,
        _ => format!("<image>{text}"),
    }
}
