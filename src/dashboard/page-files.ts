/**
 * The files of the dashboard's page, made ready to be served: the modules from their TypeScript, with the libraries they
 * name beside them. There is no build: this runs once in a process, when the page is first asked for.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { moduleURL } from '../module-url.ts'

export interface PageFile {
  /** Below the address of the files, such as `dashboard/page/main.js`. */
  readonly path: string
  readonly type: string
  readonly body: Uint8Array
  readonly gzipped: Uint8Array
}

export interface Page {
  /** Stands for the content of all files: in their address, so that they may be kept for ever. */
  readonly hash: string
  readonly html: string
  readonly files: readonly PageFile[]
}

/** `src/`, or where it was built to. */
const ROOT = dirname(dirname(fileURLToPath(import.meta.url)))
const SCRIPT = 'text/javascript; charset=utf-8'
const STYLE = 'text/css; charset=utf-8'

/** What the modules import by name, and the file that is served for it. */
const LIBRARIES: Readonly<Record<string, string>> = {
  preact: 'preact',
  'preact/hooks': 'preact/hooks',
  htm: 'htm',
  'htm/preact': 'htm/preact',
  uplot: 'uplot/dist/uPlot.esm.js',
}

/** What `style.css` is put together from: of rules that are as strong as each other the later one holds. */
const STYLES = [
  'colours',
  'frame',
  'controls',
  'panels',
  'tables',
  'states',
  'overview',
  'jobs',
  'playground',
  'dialogs',
  'narrow',
  'operations',
]

/** `import … from 'x'`, `import 'x'` and `export … from 'x'` where a statement may begin, minified or not. */
const IMPORT =
  /((?:^|[;\n}])\s*(?:import\s*(?:[\w$*\s{},]+?\s*from\s*)?|export\s*(?:\*(?:\s*as\s+\w+)?|\{[^}]*\})\s*from\s*))(['"])([^'"\n]+)\2/g

/** @param base the address under which hash and paths follow, such as `/dashboard/files` */
export function makePage(base: string): Page {
  const scripts = modulesFrom(fileURLToPath(moduleURL('./page/main.ts', import.meta.url)))
  const styles: readonly Made[] = [
    { path: 'lib/uplot.css', type: STYLE, text: readFileSync(installed('uplot/dist/uPlot.min.css'), 'utf8') },
    { path: 'style.css', type: STYLE, text: STYLES.map(styleOf).join('\n') },
  ]
  const made = [...scripts, ...styles]
  const hash = hashOf(made)
  const files = made.map(({ path, type, text }) => {
    const body = Buffer.from(text)
    return { path, type, body, gzipped: gzipSync(body) }
  })
  return { hash, html: documentOf(`${base}/${hash}`, scripts, styles), files }
}

function styleOf(name: string): string {
  return readFileSync(resolve(ROOT, `dashboard/page/styles/${name}.css`), 'utf8')
}

interface Made {
  readonly path: string
  readonly type: string
  readonly text: string
}

/** The module and all that it imports, in the order found. */
function modulesFrom(entry: string): Made[] {
  const made = new Map<string, Made>()
  const visit = (file: string, path: string) => {
    if (made.has(path)) return
    const source = readFileSync(file, 'utf8')
    const script = file.endsWith('.ts') ? stripTypeScriptTypes(source) : source
    const imported: { readonly file: string; readonly path: string }[] = []
    const text = script.replace(IMPORT, (_whole, before: string, quote: string, name: string) => {
      const target = targetOf(name, file)
      imported.push(target)
      return `${before}${quote}${wayFrom(path, target.path)}${quote}`
    })
    made.set(path, { path, type: SCRIPT, text: text.replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n') })
    for (const target of imported) visit(target.file, target.path)
  }
  visit(entry, pathOf(entry))
  return [...made.values()]
}

function targetOf(name: string, from: string): { readonly file: string; readonly path: string } {
  if (name.startsWith('.')) {
    const file = resolve(dirname(from), name)
    return { file, path: pathOf(file) }
  }
  const library = LIBRARIES[name]
  if (library === undefined) throw new Error(`${from} imports ${name}, which the dashboard does not serve`)
  return { file: installed(library), path: `lib/${name.replaceAll('/', '-')}.js` }
}

function installed(name: string): string {
  return fileURLToPath(import.meta.resolve(name))
}

/** Modules keep their place below `src/`, so that a fault is found by its address. */
function pathOf(file: string): string {
  return relative(ROOT, file).replaceAll(sep, '/').replace(/\.ts$/, '.js')
}

function wayFrom(from: string, to: string): string {
  const up = '../'.repeat(from.split('/').length - 1)
  return up === '' ? `./${to}` : up + to
}

function hashOf(made: readonly Made[]): string {
  const hash = createHash('sha256')
  for (const { path, text } of made) hash.update(`${path}\0${text}\0`)
  return hash.digest('base64url').slice(0, 16)
}

const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 20 20'%3E%3Cpath fill='%235e6ad2' d='M3 4.500A1.500 1.500 0 0 1 4.500 3h7A1.500 1.500 0 0 1 13 4.500v5a1.500 1.500 0 0 1-1.500 1.500H7l-4 3Z'/%3E%3Cpath fill='%239aa2ea' d='M15 7.500h.5A1.500 1.500 0 0 1 17 9v8l-3.500-2.500H9Z'/%3E%3C/svg%3E"

/** All modules are named at once, so that they are not fetched one after the other as each is found. */
function documentOf(address: string, scripts: readonly Made[], styles: readonly Made[]): string {
  const links = [
    ...styles.map(({ path }) => `<link rel="stylesheet" href="${address}/${path}">`),
    ...scripts.slice(1).map(({ path }) => `<link rel="modulepreload" href="${address}/${path}">`),
  ]
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Parley</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<link rel="icon" href="${ICON}">
${links.join('\n')}
<script type="module" src="${address}/${scripts[0]?.path}"></script>
</head>
<body>
<div id="app"></div>
<noscript>The dashboard needs JavaScript. Without it there is the command line: parley --help</noscript>
</body>
</html>
`
}
