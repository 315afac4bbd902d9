//! Servers in containers: their processes belong to a daemon, so they are known by a name instead.

use std::process::{Command, Stdio};

use super::{Stop, Subject};

/// A container that a server runs in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Container {
    /// The program that runs containers.
    pub(crate) runtime: String,
    /// The image.
    pub(crate) image: String,
    /// Further words before the image.
    pub(crate) options: Vec<String>,
}

impl Container {
    /// The words that run a server's words in a container on the host's network.
    pub(super) fn around(&self, words: Vec<String>, subject: &Subject, mark: &str) -> Vec<String> {
        let signal = subject.stop.signal.name();
        let mut whole: Vec<String> = [&self.runtime, "run", "--rm", "--network", "host", "--name"]
            .map(str::to_owned)
            .to_vec();
        whole.extend([name(mark), "--stop-signal".to_owned(), signal.to_owned()]);
        if let Some(folder) = &subject.folder {
            whole.extend(["--workdir".to_owned(), folder.display().to_string()]);
        }
        for (variable, value) in &subject.environment {
            whole.extend(["--env".to_owned(), format!("{variable}={value}")]);
        }
        whole.extend(self.options.iter().cloned());
        whole.push(self.image.clone());
        whole.extend(words);
        whole
    }

    /// Stops the container of a mark and waits until it has.
    pub(super) fn stop(&self, mark: &str, stop: Stop) {
        let grace = stop.grace.as_secs().to_string();
        self.tell(&["stop", "-t", &grace], &[name(mark)]);
    }

    /// Removes containers that an earlier, killed session may have left; most are not there.
    pub(crate) fn remove(&self, marks: &[String]) {
        let names: Vec<String> = marks.iter().map(|mark| name(mark)).collect();
        for names in names.chunks(64) {
            self.tell(&["rm", "--force"], names);
        }
    }

    fn tell(&self, words: &[&str], names: &[String]) {
        // a container that is gone already is as good as one that was stopped
        Command::new(&self.runtime)
            .args(words)
            .args(names)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .ok();
    }
}

/// The name of the container of a mark.
fn name(mark: &str) -> String {
    let plain = |letter: char| {
        if letter.is_ascii_alphanumeric() {
            letter
        } else {
            '-'
        }
    };
    format!("lab-{}", mark.chars().map(plain).collect::<String>())
}

#[cfg(test)]
mod tests {
    use crate::matrix::Plan;
    use crate::subject::Places;

    #[test]
    fn a_container_is_put_around_the_words() {
        let plan = "name = \"x\"\n[[subject]]\nname = \"boxed\"\ncommand = \"serve --port {port}\"\n\
            folder = \"/data\"\nenvironment = { X = \"1\" }\nstop = { signal = \"INT\" }\n\
            container = { image = \"maker/server:v1\", options = \"--gpus all\" }\n\
            [[load]]\nname = \"l\"\nbench = \"\"\n";
        let plan = Plan::parse(plan).unwrap();
        let places = Places {
            values: vec![("port", "1234".to_owned())],
        };
        let launch = plan.subjects[0].launch(&places, "session/1");
        assert_eq!(
            launch.words.join(" "),
            "docker run --rm --network host --name lab-session-1 --stop-signal SIGINT --workdir /data \
             --env X=1 --gpus all maker/server:v1 serve --port 1234"
        );
        assert_eq!(launch.folder, None, "the folder is one of the container's");
        let facts = plan.subjects[0].facts(&places);
        assert_eq!(facts.versions["image"], "maker/server:v1");
    }
}
