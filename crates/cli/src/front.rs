//! What the flags alone say about serving; checked before minutes of loading.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use flags::Parsed;
use server::{AllowedNames, Keys, Limits, ProfileFolder, Tls, TlsFiles};

use crate::env::Env;
use crate::launch::ConfigError;

/// How often the files of encrypted connections are looked at.
const REFRESH: Duration = Duration::from_secs(5);

/// The server's front, before there is anything behind it.
pub(crate) struct Front {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: Option<Tls>,
    pub(crate) keys: Keys,
    pub(crate) allowed: AllowedNames,
    pub(crate) limits: Limits,
    pub(crate) profiles: Option<ProfileFolder>,
    pub(crate) stream_interval: usize,
    pub(crate) preferred_sampling_params: Option<serde_json::Value>,
}

impl Front {
    /// The address is taken for a moment, to see whether it is free.
    pub(crate) fn of(parsed: &Parsed, env: &Env) -> anyhow::Result<Self> {
        let host = parsed.text("host").unwrap_or("127.0.0.1").to_owned();
        let number = parsed.integer("port").unwrap_or(30000);
        let port = u16::try_from(number).map_err(|_| ConfigError::OutOfRange {
            flag: "--port",
            value: number.to_string(),
            range: "between 0 and 65535",
        })?;
        let tls = tls(parsed)?;
        let keys = keys(parsed)?;
        std::net::TcpListener::bind((host.as_str(), port)).with_context(|| {
            format!("cannot listen on {host}:{port}; choose another --host or --port")
        })?;
        let list = |flag: &str| {
            let names = parsed.list(flag).unwrap_or_default();
            names.into_iter().map(str::to_owned).collect()
        };
        let preferred = parsed
            .text("preferred-sampling-params")
            .map(serde_json::from_str);
        Ok(Self {
            host,
            port,
            tls,
            keys,
            allowed: AllowedNames {
                hosts: list("allowed-hosts"),
                origins: list("allowed-origins"),
            },
            limits: limits(parsed)?,
            profiles: profiles(parsed, env)?,
            stream_interval: positive(parsed, "stream-interval", "--stream-interval")?.unwrap_or(1),
            preferred_sampling_params: preferred
                .transpose()
                .context("--preferred-sampling-params is not JSON")?,
        })
    }
}

/// A number that is at least one, where it is given.
fn positive(parsed: &Parsed, name: &str, flag: &'static str) -> Result<Option<usize>, ConfigError> {
    let Some(number) = parsed.integer(name) else {
        return Ok(None);
    };
    let positive = usize::try_from(number).ok().filter(|&number| number > 0);
    let positive = positive.ok_or_else(|| ConfigError::OutOfRange {
        flag,
        value: number.to_string(),
        range: "at least 1",
    })?;
    Ok(Some(positive))
}

fn limits(parsed: &Parsed) -> anyhow::Result<Limits> {
    let usual = Limits::default();
    let number = |name, flag| positive(parsed, name, flag);
    let streams = number(
        "http2-max-concurrent-streams",
        "--http2-max-concurrent-streams",
    )?;
    Ok(Limits {
        connections: number("max-connections", "--max-connections")?.unwrap_or(usual.connections),
        body_bytes: number("max-body-bytes-in-flight", "--max-body-bytes-in-flight")?
            .unwrap_or(usual.body_bytes),
        streams: streams.map_or(usual.streams, |streams| {
            u32::try_from(streams).unwrap_or(u32::MAX)
        }),
        ..usual
    })
}

fn keys(parsed: &Parsed) -> anyhow::Result<Keys> {
    for flag in ["api-key", "admin-api-key"] {
        ensure!(
            parsed.text(flag) != Some(""),
            "--{flag} is empty, which would protect nothing; leave it out or give a key"
        );
    }
    Ok(Keys {
        api: parsed.text("api-key").map(str::to_owned),
        admin: parsed.text("admin-api-key").map(str::to_owned),
        public_metrics: parsed.switch("public-metrics"),
    })
}

fn tls(parsed: &Parsed) -> anyhow::Result<Option<Tls>> {
    let path = |flag: &str| parsed.text(flag).map(PathBuf::from);
    let (certificates, key) = match (path("ssl-certfile"), path("ssl-keyfile")) {
        (Some(certificates), Some(key)) => (certificates, key),
        (Some(_), None) => {
            bail!("--ssl-certfile needs the key of the certificate: give --ssl-keyfile")
        }
        (None, Some(_)) => {
            bail!("--ssl-keyfile needs the certificate of the key: give --ssl-certfile")
        }
        (None, None) => {
            for flag in ["ssl-ca-certs", "ssl-keyfile-password", "enable-ssl-refresh"] {
                ensure!(
                    !parsed.given(flag),
                    "--{flag} without a certificate would encrypt nothing: give --ssl-certfile and --ssl-keyfile"
                );
            }
            return Ok(None);
        }
    };
    ensure!(
        !parsed.given("ssl-keyfile-password"),
        "--ssl-keyfile-password: encrypted keys are not supported; decrypt it with `openssl pkey` into a file that only the \
         server's user can read, and leave the password out"
    );
    let files = TlsFiles {
        certificates,
        key,
        client_authorities: path("ssl-ca-certs"),
    };
    let refresh = parsed.switch("enable-ssl-refresh").then_some(REFRESH);
    Ok(Some(Tls::load(files, refresh)?))
}

fn profiles(parsed: &Parsed, env: &Env) -> anyhow::Result<Option<ProfileFolder>> {
    let flag = parsed.text("profile-dir").map(Path::new);
    let Some(path) = flag.or(env.profile_folder.as_deref()) else {
        return Ok(None);
    };
    let folder = ProfileFolder::open(path);
    let folder = folder.with_context(|| {
        format!(
            "profiles cannot be written to {}; choose another --profile-dir or SGLANG_TORCH_PROFILER_DIR",
            path.display()
        )
    })?;
    Ok(Some(folder))
}
