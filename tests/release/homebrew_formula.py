"""The formula of Homebrew, from the archives of a release.

Homebrew installs a formula from a tap alone, and loads none from a path. A tap is a folder with formulae, with or
without Git (docs/How-to-Create-and-Maintain-a-Tap.md of Homebrew/brew). The order of the components is that of
`FORMULA_COMPONENT_PRECEDENCE_LIST` in its Library/Homebrew/ast_constants.rb, which `brew style` compares.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.release.commands import ReleaseError
from tests.release.standalone import StandaloneArchive

FORMULA_FILE: Final = "tallygate.rb"
"""The name of the file, by which a tap has it in its folder Formula."""

_SYSTEMS: Final = {"darwin": "on_macos", "linux": "on_linux"}
_MACHINES: Final = {"arm64": "on_arm", "amd64": "on_intel"}
_HEAD: Final = """\
class Tallygate < Formula
  desc "Explain and check requests for GPUs, licences and other counted resources"
  homepage "{homepage}"
  version "{version}"
  license "Apache-2.0"
"""
_TAIL: Final = """
  # PyInstaller has named the libraries by @rpath; some have no room for the longer path of a keg.
  preserve_rpath

  def install
    libexec.install Dir["*"]
    bin.install_symlink libexec/"tallygate"
    bin.install_symlink libexec/"tallygate" => "kubectl-tallygate"
    generate_completions_from_executable(bin/"tallygate", "completion")
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/tallygate --version")
    assert_match version.to_s, shell_output("#{bin}/kubectl-tallygate --version")
  end
end
"""


def describe_formula(version: str, homepage: str, url: str, archives: Iterable[Path]) -> str:
    """Return the formula of a version as Ruby; the archives are downloaded from the address `url`.

    The version is written, because Homebrew finds no pre-release in an address.

    Raises:
        ReleaseError: if the name of an archive has no known platform, or there is no archive.
    """
    read = [StandaloneArchive.read(each) for each in archives]
    if not read:
        raise ReleaseError("a formula needs an archive of the command")
    blocks = [
        _describe_system(block, [each for each in read if each.system == system], url)
        for system, block in _SYSTEMS.items()
    ]
    return _HEAD.format(homepage=homepage, version=version) + "".join(blocks) + _TAIL


def _describe_system(block: str, archives: Sequence[StandaloneArchive], url: str) -> str:
    if not archives:
        return ""
    lines = ["", f"  {block} do"]
    for machine, inner in _MACHINES.items():
        for archive in archives:
            if archive.machine == machine:
                lines += [
                    f"    {inner} do",
                    f'      url "{url.rstrip("/")}/{archive.name}"',
                    f'      sha256 "{archive.sha256}"',
                    "    end",
                ]
    return "\n".join([*lines, "  end", ""])
