/**
 * Prepares the dashboard's files for serving: removes the types from its modules, and adds the libraries that they import. This
 * happens once per process, when the dashboard is first requested, so there is no build step.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { stripTypeScriptTypes } from 'node:module'
import { dirname, relative, resolve, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { moduleURL } from '../module-url.ts'

export interface PageFile {
  /** The path is below the base URL of the files, such as `src/dashboard/page/main.js`. */
  readonly path: string
  readonly type: string
  readonly body: Uint8Array
  readonly gzipped: Uint8Array
}

export interface Page {
  /** The hash covers all files. The URLs contain the hash, so browsers may cache the files forever. */
  readonly hash: string
  readonly html: string
  readonly files: readonly PageFile[]
}

/** This folder contains `src/` and `json-schema/`. In a package, it is the folder of the build. */
const ROOT = dirname(dirname(dirname(fileURLToPath(import.meta.url))))
const SCRIPT = 'text/javascript; charset=utf-8'
const STYLE = 'text/css; charset=utf-8'

/** Maps the packages that the modules import to the file that is served for each. */
const LIBRARIES: Readonly<Record<string, string>> = {
  preact: 'preact',
  'preact/hooks': 'preact/hooks',
  htm: 'htm',
  'htm/preact': 'htm/preact',
  uplot: 'uplot/dist/uPlot.esm.js',
}

const SCHEMAS = 'parley-json-schema'

/** These files make up `style.css`, in this order. If two rules have equal specificity, the later rule applies. */
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
  'accounts-and-audit',
]

/** Matches `import … from 'x'`, `import 'x'` and `export … from 'x'` at the start of a statement, minified or not. */
const IMPORT =
  /((?:^|[;\n}])\s*(?:import\s*(?:[\w$*\s{},]+?\s*from\s*)?|export\s*(?:\*(?:\s*as\s+\w+)?|\{[^}]*\})\s*from\s*))(['"])([^'"\n]+)\2/g

/** @param base the URL path of the files, such as `/dashboard/files`; the hash and the path of a file follow it */
export function makePage(base: string): Page {
  const scripts = modulesFrom(fileURLToPath(moduleURL('./page/main.ts', import.meta.url)))
  const styles: readonly SourceFile[] = [
    { path: 'lib/uplot.css', type: STYLE, text: readFileSync(installed('uplot/dist/uPlot.min.css'), 'utf8') },
    { path: 'style.css', type: STYLE, text: STYLES.map(styleOf).join('\n') },
  ]
  const sources = [...scripts, ...styles]
  const hash = hashOf(sources)
  const files = sources.map(({ path, type, text }) => {
    const body = Buffer.from(text)
    return { path, type, body, gzipped: gzipSync(body) }
  })
  return { hash, html: documentOf(`${base}/${hash}`, scripts, styles), files }
}

function styleOf(name: string): string {
  return readFileSync(resolve(ROOT, `src/dashboard/page/styles/${name}.css`), 'utf8')
}

interface SourceFile {
  readonly path: string
  readonly type: string
  readonly text: string
}

/** Returns the module and all modules that it imports, directly or not, in depth-first order. */
function modulesFrom(entry: string): SourceFile[] {
  const modules = new Map<string, SourceFile>()
  const visit = (file: string, path: string) => {
    if (modules.has(path)) return
    const source = readFileSync(file, 'utf8')
    const script = file.endsWith('.ts') ? stripTypeScriptTypes(source) : source
    const imported: { readonly file: string; readonly path: string }[] = []
    const text = script.replace(IMPORT, (_whole, before: string, quote: string, name: string) => {
      const target = targetOf(name, file)
      imported.push(target)
      return `${before}${quote}${relativePath(path, target.path)}${quote}`
    })
    modules.set(path, { path, type: SCRIPT, text: text.replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n') })
    for (const target of imported) visit(target.file, target.path)
  }
  visit(entry, pathOf(entry))
  return [...modules.values()]
}

function targetOf(name: string, from: string): { readonly file: string; readonly path: string } {
  if (name.startsWith('.') || name === SCHEMAS) {
    const file = name === SCHEMAS ? installed(name) : resolve(dirname(from), name)
    return { file, path: pathOf(file) }
  }
  const library = LIBRARIES[name]
  if (library === undefined) throw new Error(`${from} imports ${name}, which the dashboard does not serve`)
  return { file: installed(library), path: `lib/${name.replaceAll('/', '-')}.js` }
}

function installed(name: string): string {
  return fileURLToPath(import.meta.resolve(name))
}

/** The URL contains the module's path in the project, so that stack traces in browsers show the source file. */
function pathOf(file: string): string {
  return relative(ROOT, file).replaceAll(sep, '/').replace(/\.ts$/, '.js')
}

function relativePath(from: string, to: string): string {
  const up = '../'.repeat(from.split('/').length - 1)
  return up === '' ? `./${to}` : up + to
}

function hashOf(sources: readonly SourceFile[]): string {
  const hash = createHash('sha256')
  for (const { path, text } of sources) hash.update(`${path}\0${text}\0`)
  return hash.digest('base64url').slice(0, 16)
}

const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 20 20'%3E%3Cpath fill='%235e6ad2' d='M3 4.500A1.500 1.500 0 0 1 4.500 3h7A1.500 1.500 0 0 1 13 4.500v5a1.500 1.500 0 0 1-1.500 1.500H7l-4 3Z'/%3E%3Cpath fill='%239aa2ea' d='M15 7.500h.5A1.500 1.500 0 0 1 17 9v8l-3.500-2.500H9Z'/%3E%3C/svg%3E"

/** The document lists all modules. Browsers then load them in parallel, instead of finding one after the other. */
function documentOf(address: string, scripts: readonly SourceFile[], styles: readonly SourceFile[]): string {
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
<noscript>The dashboard needs JavaScript. Without JavaScript, use the command line: parley --help</noscript>
</body>
</html>
`
}
