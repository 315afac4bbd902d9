//! Which dataset the options ask for.

use super::error::ServingError;
use super::options::{Imitated, Options};
use crate::dataset::{
    AgentRules, Dataset, DatasetError, ImageFormat, ImageRules, MooncakeRules, PairLimits,
    PairRules, Resolution, SharedPrefixRules, Source, SyntheticRules,
};
use crate::random::Streams;
use flags::Value;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// What is said of random prompts that are made without conversations to cut them from.
const IDS_INSTEAD: &str = "note: --dataset-name random without --dataset-path sends random token ids \
    (random-ids); name a ShareGPT file to send pieces of its conversations";

impl Options {
    /// Says before anything is asked of a server that the dataset lacks its file. Random prompts
    /// need none: what is to be said of them.
    pub fn settle_dataset(&mut self) -> Result<Option<&'static str>, ServingError> {
        let sglang = self.imitated == Imitated::Sglang;
        if sglang && self.dataset_path().is_none() && self.dataset_name() == "random" {
            let ids = Value::Text("random-ids".to_owned());
            self.given.set("dataset-name", ids);
            return Ok(Some(IDS_INSTEAD));
        }
        // Other mistakes are told where the reference tells them.
        let checked = self
            .source()
            .map_or(Ok(()), |source| source.check_path(self.dataset_path()));
        checked.map_err(|error| match error {
            DatasetError::NoPath { .. } if sglang => ServingError::Refused(format!(
                "{error}, or --dataset-name random-ids, which needs none"
            )),
            _ => error.into(),
        })?;
        Ok(None)
    }

    /// The dataset's name.
    pub(super) fn dataset_name(&self) -> &str {
        self.given.text("dataset-name").unwrap_or_default()
    }

    /// The file that is named.
    pub(super) fn dataset_path(&self) -> Option<&Path> {
        let path = self.given.text("dataset-path");
        path.filter(|path| !path.is_empty()).map(Path::new)
    }

    /// Why a dataset has no row to send.
    pub(super) fn no_row(&self, dataset: &Dataset) -> String {
        match (self.count("num-prompts"), &dataset.left_out) {
            (Some(0), _) => "--num-prompts is 0".to_owned(),
            (_, Some(left_out)) => left_out.clone(),
            _ => "its file has no entry that can be sent".to_owned(),
        }
    }

    /// The dataset to be made.
    pub fn source(&self) -> Result<Source, ServingError> {
        if self.imitated == Imitated::Lmdeploy {
            return self.lmdeploy_source();
        }
        let name = self.dataset_name();
        let as_ids = self.given.switch("tokenize-prompt");
        let text_only = [
            "sharegpt",
            "custom",
            "openai",
            "longbench_v2",
            "speed-bench",
            "mooncake",
        ];
        if as_ids && text_only.contains(&name) {
            return Err(ServingError::Refused(format!(
                "`--tokenize-prompt` not compatible with the {name} dataset"
            )));
        }
        let count = self.size("num-prompts");
        Ok(match name {
            "sharegpt" => Source::ShareGpt(self.pair_rules(count)),
            "custom" => Source::Custom(self.pair_rules(count)),
            "random" => Source::Random(self.synthetic_rules(count, as_ids)),
            "random-ids" => Source::RandomIds(self.synthetic_rules(count, as_ids)),
            "generated-shared-prefix" => {
                if as_ids && !self.release.has(23) {
                    return Err(ServingError::Refused(
                        "`--tokenize-prompt` not compatible with generated-shared-prefix dataset"
                            .to_owned(),
                    ));
                }
                Source::SharedPrefix(self.shared_prefix_rules(as_ids)?)
            }
            "image" => Source::Image(self.image_rules(count)?),
            "mooncake" => Source::Mooncake(MooncakeRules {
                count,
                rounds: self.size("mooncake-num-rounds").max(1),
            }),
            "openai" => Source::OpenAi {
                count,
                output_tokens: self.count("sharegpt-output-len"),
            },
            "longbench_v2" => Source::LongBench {
                count,
                output_tokens: self.count("sharegpt-output-len"),
                context: self.count("sharegpt-context-len"),
            },
            "speed-bench" => Source::SpeedBench {
                count,
                output_tokens: self.count("speed-bench-output-len").unwrap_or(512),
                category: self.given.text("speed-bench-category").map(str::to_owned),
            },
            "agentic-trace" => Source::Agents(AgentRules {
                count,
                offset: self.given.integer("dataset-offset").unwrap_or(0),
                turns: self
                    .given
                    .integer("agentic-max-turns")
                    .map(|turns| turns.max(0) as usize),
                output_tokens: self.count("sharegpt-output-len"),
            }),
            _ => {
                let reason =
                    "its pictures and questions are on a hub that is not reached from here";
                let reason = reason.to_owned();
                return Err(DatasetError::Unsupported {
                    name: "mmmu",
                    reason,
                }
                .into());
            }
        })
    }

    fn size(&self, name: &str) -> usize {
        self.count(name).unwrap_or(0) as usize
    }

    fn pair_rules(&self, count: usize) -> PairRules {
        PairRules {
            count,
            output_tokens: self.count("sharegpt-output-len"),
            context: self.count("sharegpt-context-len"),
            suffix: self
                .given
                .text("prompt-suffix")
                .unwrap_or_default()
                .to_owned(),
            template: self.given.switch("apply-chat-template"),
            limits: PairLimits::default(),
        }
    }

    fn synthetic_rules(&self, count: usize, as_ids: bool) -> SyntheticRules {
        SyntheticRules {
            count,
            input: self.count("random-input-len").unwrap_or(0),
            output: self.count("random-output-len").unwrap_or(0),
            share: self.given.float("random-range-ratio").unwrap_or(0.0),
            as_ids,
            leave_room: self.release.has(9),
        }
    }

    fn shared_prefix_rules(&self, as_ids: bool) -> Result<SharedPrefixRules, ServingError> {
        let seed = self.seed()?;
        Ok(SharedPrefixRules {
            groups: self.size("gsp-num-groups"),
            per_group: self.size("gsp-prompts-per-group"),
            system: self.count("gsp-system-prompt-len").unwrap_or(0),
            question: self.count("gsp-question-len").unwrap_or(0),
            output: self.count("gsp-output-len").unwrap_or(0),
            share: self.given.float("gsp-range-ratio").unwrap_or(1.0),
            turns: self.size("gsp-num-turns").max(1),
            uncounted: self.given.switch("gsp-fast-prepare"),
            ordered: self.given.switch("gsp-ordered"),
            as_ids,
            zipf: self.given.float("gsp-zipf-alpha"),
            routing: self
                .given
                .switch("gsp-send-routing-key")
                .then(|| run_name(seed)),
            seed,
        })
    }

    fn image_rules(&self, count: usize) -> Result<ImageRules, ServingError> {
        let text = |name: &str| self.given.text(name).unwrap_or_default();
        let chat = text("backend").ends_with("-chat");
        let native = ["sglang", "sglang-native"].contains(&text("backend"));
        if self.release.has(10) && !chat && !native {
            return Err(ServingError::Refused(format!(
                "Image dataset only supports backends: ('sglang', 'sglang-native', \
                 'sglang-oai-chat', 'vllm-chat', 'lmdeploy-chat'), got '{}'.",
                text("backend")
            )));
        }
        let format = match text("image-format") {
            "jpeg" | "jpg" => ImageFormat::Jpeg,
            "png" => ImageFormat::Png,
            other => {
                return Err(ServingError::Refused(format!(
                    "--image-format {other}: only jpeg and png are known"
                )));
            }
        };
        let resolution = text("image-resolution").parse::<Resolution>();
        Ok(ImageRules {
            count,
            images: self.count("image-count").unwrap_or(1).max(1),
            draw_images: self.given.switch("random-image-count"),
            input: self.count("random-input-len").unwrap_or(0),
            output: self.count("random-output-len").unwrap_or(0),
            share: self.given.float("random-range-ratio").unwrap_or(0.0),
            resolution: resolution.map_err(|error| ServingError::Refused(error.to_string()))?,
            format,
            blank: text("image-content") == "blank",
            raw_text: chat || !self.release.has(10),
            reseed: if self.release.has(18) {
                Some(self.seed()?)
            } else {
                None
            },
        })
    }

    fn lmdeploy_source(&self) -> Result<Source, ServingError> {
        let count = self.size("num-prompts");
        let lengths = (
            self.count("random-input-len"),
            self.count("random-output-len"),
        );
        match (self.given.text("dataset-name"), lengths) {
            (Some("sharegpt"), (None, None)) => Ok(Source::ShareGpt(PairRules {
                count,
                output_tokens: self.count("sharegpt-output-len"),
                limits: PairLimits::LMDEPLOY,
                ..PairRules::default()
            })),
            (Some("sharegpt"), _) => Err(ServingError::Refused(
                "random lengths must not be given for the sharegpt dataset".to_owned(),
            )),
            (Some("random"), (Some(input), Some(output))) => Ok(Source::Random(SyntheticRules {
                count,
                input,
                output,
                share: self.given.float("random-range-ratio").unwrap_or(0.0),
                as_ids: false,
                leave_room: false,
            })),
            (Some("random"), _) => Err(ServingError::Refused(
                "the random dataset needs --random-input-len and --random-output-len".to_owned(),
            )),
            _ => Err(ServingError::Refused(
                "this dataset is not known to the LMDeploy client".to_owned(),
            )),
        }
    }
}

/// What tells the routing keys of this run from those of another: eight digits and the time.
fn run_name(seed: u32) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let mut random = Streams::seeded(seed ^ now.subsec_nanos()).numpy;
    let digits = random.integer(0, u64::from(u32::MAX));
    format!("{digits:08x}_{}", super::calendar::compact(now.as_secs()))
}
