/**
 * Copies the tree so that one file can be replaced. The files are hard links. Packages link to those of the original, except
 * workspaces, because such a link would load the source without the mistake.
 */
import {
  chmodSync,
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Tests need only the packages of these folders, which are linked separately. */
const LEFT_OUT = ['node_modules', '.git', 'dist', 'coverage', 'data']

export class TreeCopy {
  readonly root: string
  /** Tests keep temporary files here. A killed test does not remove them, so each run has its own folder. */
  temporary: string
  readonly #original: string
  readonly #folder: string
  #runs = 0

  constructor(original: string) {
    this.#original = original
    this.#folder = mkdtempSync(join(tmpdir(), 'parley-mutants-'))
    // If the tests run as root, Postgres runs as another user, and must reach its files below.
    chmodSync(this.#folder, 0o711)
    this.root = join(this.#folder, 'tree')
    linkFolder(original, this.root)
    linkPackages(join(original, 'node_modules'), join(this.root, 'node_modules'))
    this.temporary = this.#makeTemporary()
  }

  /** Writing to the hard link would change the original, so this writes a new file. */
  replace(file: string, text: string): void {
    rmSync(join(this.root, file))
    writeFileSync(join(this.root, file), text)
  }

  restore(file: string): void {
    rmSync(join(this.root, file))
    link(join(this.#original, file), join(this.root, file))
  }

  /** Killed processes may still write to the earlier folder, so it is not used again. */
  renewTemporary(): void {
    const earlier = this.temporary
    this.temporary = this.#makeTemporary()
    removeFolder(earlier)
  }

  remove(): void {
    removeFolder(this.#folder)
  }

  #makeTemporary(): string {
    this.#runs += 1
    const folder = join(this.#folder, `${this.#runs}`)
    mkdirSync(folder)
    chmodSync(folder, 0o1777)
    return folder
  }
}

/** If tests are killed, their watcher stops Postgres, which writes until then. */
const STOPS_WITHIN_MS = 10_000

function removeFolder(folder: string): void {
  const untilMs = performance.now() + STOPS_WITHIN_MS
  while (existsSync(folder) && performance.now() < untilMs) {
    try {
      rmSync(folder, { recursive: true, force: true })
    } catch {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100)
    }
  }
}

function linkFolder(from: string, to: string): void {
  mkdirSync(to)
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    if (LEFT_OUT.includes(entry.name)) continue
    const [source, target] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) linkFolder(source, target)
    else if (entry.isFile()) link(source, target)
  }
}

function link(source: string, target: string): void {
  try {
    linkSync(source, target)
  } catch (error) {
    if (!(error instanceof Error) || !('code' in error) || error.code !== 'EXDEV') throw error
    // Temporary files may be on another file system, where hard links are impossible.
    copyFileSync(source, target)
  }
}

function linkPackages(from: string, to: string): void {
  const packages = realpathSync(from)
  mkdirSync(to)
  for (const entry of readdirSync(packages, { withFileTypes: true })) {
    const source = join(packages, entry.name)
    // Caches depend on the sources. A workspace's link is relative, so the same link leads to the copy.
    if (entry.name === '.cache') continue
    symlinkSync(entry.isSymbolicLink() ? readlinkSync(source) : source, join(to, entry.name))
  }
}
