/**
 * Runs a headless Chromium from the npm package `@sparticuz/chromium`, so nothing else needs to be installed. Each version is
 * unpacked once into the caches of the clone.
 */
import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { type Browser, chromium } from 'playwright-core'
import { CLONE } from '../support/test-files.ts'

const PACKED = join(dirname(fileURLToPath(import.meta.resolve('@sparticuz/chromium'))), '../bin')

/** Chromium's sandbox needs privileges that root in a container and some users lack. The tests open only Parley's own pages. */
const ARGUMENTS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-dev-shm-usage',
  '--font-render-hinting=none',
  '--no-pings',
]

export async function launchChromium(): Promise<Browser> {
  const home = await unpacked()
  const launch = (env: Record<string, string>) =>
    chromium.launch({
      executablePath: join(home, 'chromium'),
      args: ARGUMENTS,
      // The package's fonts make pages look the same on most machines.
      env: { ...definedOf(process.env), FONTCONFIG_PATH: join(home, 'fonts'), ...env },
    })
  try {
    return await launch({})
  } catch (error) {
    // A minimal system lacks libraries that Chromium needs. The package contains them.
    if (!String(error).includes('shared libraries')) throw error
    return await launch({ LD_LIBRARY_PATH: join(home, 'al2023/lib') })
  }
}

/**
 * Test files may unpack the browser at the same time. Each unpacks into its own folder, and the first to finish renames its
 * folder to `home`.
 */
async function unpacked(): Promise<string> {
  const home = join(CLONE, `node_modules/.cache/chromium-${version()}`)
  if (existsSync(home)) return home
  const own = `${home}-${randomBytes(6).toString('hex')}`
  await mkdir(own, { recursive: true, mode: 0o700 })
  try {
    await inflateInto(own)
    await writeFile(join(own, 'fonts/fonts.conf'), fontsAt(home))
    await rename(own, home)
  } catch (error) {
    await rm(own, { recursive: true, force: true })
    if (!existsSync(home)) throw error
  }
  return home
}

const INFLATE =
  "import { inflate } from '@sparticuz/chromium'; await Promise.all(process.argv.slice(1).map((file) => inflate(file)))"

/**
 * The package changes the temporary folder of its process, which other tests in this process use, so it runs in a separate
 * process.
 */
async function inflateInto(folder: string): Promise<void> {
  const files = ['chromium.br', 'fonts.tar.br', 'al2023.tar.br'].map((file) => join(PACKED, file))
  await promisify(execFile)(process.execPath, ['--input-type=module', '-e', INFLATE, '--', ...files], {
    cwd: CLONE,
    env: { ...process.env, TMPDIR: folder },
  })
}

/**
 * The package's fonts come first, so that pages look the same on most machines. System fonts fill the gaps, for example for
 * code.
 */
function fontsAt(home: string): string {
  const families = ['sans-serif', 'system-ui', 'ui-sans-serif'].map(
    (family) =>
      `<alias binding="same"><family>${family}</family><prefer><family>Open Sans</family></prefer></alias>`,
  )
  return `<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
<dir>${home}/fonts</dir>
<dir>/usr/share/fonts</dir>
<cachedir>${home}/fontconfig</cachedir>
${families.join('\n')}
</fontconfig>
`
}

function version(): string {
  const file = join(PACKED, '../package.json')
  return (JSON.parse(readFileSync(file, 'utf8')) as { version: string }).version
}

function definedOf(env: NodeJS.ProcessEnv): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined),
  )
}
