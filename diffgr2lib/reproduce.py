"""Run the notebooks in order, headless: `python -m diffgr2lib.reproduce --preset toy`."""

import argparse
import sys
import time
from pathlib import Path

from diffgr2lib.errors import ConfigError, KitError
from diffgr2lib.provenance import project_root
from diffgr2lib.run import check_parameters


def notebooks_folder() -> Path:
    """The notebooks of this checkout. Raises `ConfigError` where there are none."""
    for folder in (Path(__file__).resolve().parents[1], project_root()):
        if (folder / "notebooks").is_dir():
            return folder / "notebooks"
    raise ConfigError("The notebooks were not found; run from a checkout of the repository.")


def choose(folder: Path, only: str) -> list[Path]:
    """Notebooks in order; `only` is a comma list of their numbers, "" for all."""
    found = {path.name[:2]: path for path in sorted(folder.glob("[0-9][0-9]_*.ipynb"))}
    wanted = [number.strip() for number in only.split(",")] if only else list(found)
    unknown = [number for number in wanted if number not in found]
    if unknown:
        raise ConfigError(
            f"There is no notebook {', '.join(unknown)}; choose from {', '.join(found)}."
        )
    return [found[number] for number in sorted(wanted)]


def execute(notebook: Path, parameters: dict[str, object], folder: Path) -> None:
    """Run one notebook through papermill's API; the executed copy goes to `folder`."""
    import papermill

    folder.mkdir(parents=True, exist_ok=True)
    papermill.execute_notebook(
        str(notebook),
        str(folder / notebook.name),
        parameters=parameters,
        kernel_name="python3",
        log_output=True,
        progress_bar=False,
        store_widget_state=False,
        stdout_file=sys.stdout,
        stderr_file=sys.stderr,
    )


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0 only if every notebook ran to its end."""
    parser = argparse.ArgumentParser("diffgr2lib.reproduce", description=__doc__)
    parser.add_argument("--preset", default="toy", help="smoke, toy, beauty-cpu, folder:DIR ..")
    parser.add_argument(
        "--only", default="", help="numbers of notebooks, as 01,02,03 (default: all)"
    )
    parser.add_argument("--seeds", default="0", help="training seeds, as 0,1,2")
    parser.add_argument("--device", default="cpu", help="cpu, cuda or auto")
    parser.add_argument("--out", default="", help="folder of tables and figures")
    parser.add_argument("--force", action="store_true", help="rebuild every stage")
    given = parser.parse_args(arguments)
    try:
        checked = check_parameters(
            {
                "preset": given.preset,
                "seeds": given.seeds,
                "device": given.device,
                "out_dir": given.out,
                "force": given.force,
            }
        )
        chosen = choose(notebooks_folder(), given.only)
    except KitError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    out = checked.out_dir.resolve()
    parameters: dict[str, object] = {
        "preset": given.preset,
        "seeds": list(checked.seeds),
        "device": checked.device,
        "out_dir": str(out),
        "force": checked.force,
    }
    from papermill.exceptions import PapermillExecutionError

    for notebook in chosen:
        print(f"== {notebook.stem} (preset {checked.preset.name})", flush=True)
        began = time.perf_counter()
        try:
            execute(notebook, parameters, project_root() / "runs" / checked.preset.name)
        except PapermillExecutionError as error:
            print(f"error: {notebook.name} failed: {error}", file=sys.stderr)
            return 1
        print(f"== {notebook.stem} done in {time.perf_counter() - began:.0f} s", flush=True)
    summarise(out)
    return 0


def summarise(out: Path) -> None:
    """Print table 2 and the figures' paths."""
    table = out / "table2_accuracy.md"
    if table.exists():
        print("\nTable 2\n" + table.read_text(encoding="utf-8"))
    for path in sorted(out.glob("*.png")):
        print(path)


if __name__ == "__main__":
    raise SystemExit(main())
