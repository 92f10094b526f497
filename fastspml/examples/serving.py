"""How do I serve predictions to other programs?

`fastspml serve MODEL NETWORK` answers requests over HTTP, and has a page to try them in a browser. Here it runs in a
separate process, is sent the text of a new package, and is stopped as a service manager would.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.request import Request, urlopen

import fastspml as fs


def main() -> None:
    sound = next(network for network in fs.datasets.debian() if network.name == "sound")
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / name) for name in ("model.h5", "network.h5")]
        fs.save_model(files[0], fs.SPML(weighting="tfidf", n_iters=3000).fit(sound))
        fs.write_networks(files[1], sound)
        command = [sys.executable, "-m", "fastspml", "serve", *files, "--port", "0"]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as service:
            assert service.stderr is not None
            ready = next(line for line in service.stderr if line.startswith("serving"))
            url = ready.split(" on ")[1].split()[0]  # http://127.0.0.1:PORT/
            request = {"text": "software synthesizer that plays MIDI files", "k": 3, "reasons": 2}
            with urlopen(Request(f"{url}links", json.dumps(request).encode())) as answer:
                links = json.load(answer)["links"]
            service.send_signal(signal.SIGTERM)
    for link in links:
        reasons = ", ".join(dict.fromkeys(reason["feature"] for reason in link["reasons"]))
        print(f"{link['candidate']}: {link['score']:.2f}, because of {reasons}")
    print("exit code of the service:", service.returncode)


if __name__ == "__main__":
    main()
