/**
 * Tests that each idea has only one word: no file, document or message may use a term that the glossary (docs/glossary.md) has
 * replaced.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { clientProgram, program, ROOT, schemasProgram, sourcesIn } from '../test/support/project-sources.ts'
import { identifiersIn, type SourceText, splitSource } from '../test/support/source-text.ts'
import { SOURCE_FOLDERS } from '../test/support/test-files.ts'

/** No identifier and no file name may contain these words, which the glossary replaces. */
const RETIRED_NAMES = `
  act, acts, courier, couriers, death, deaths, destination, destinations, doubt, doubts, ear, elsewhere,
  fared, give back, given back, gives back, giving back, hands, holdings, intervention, interventions,
  kept answer, kept answers, lingering, notices, postpone, postponed, recall, recalled, reclaim, reclaimed,
  say, stepping, storing, sweeper, tally, told, under way, waiter, waiters
`
  .trim()
  .split(/,\s+/)

/** These names were released, so they cannot change. Each may be used only where `in` matches. */
const RELEASED_NAMES: readonly {
  readonly names: readonly string[]
  readonly in: RegExp
  readonly because: string
}[] = [
  {
    names: ['acts'],
    in: /^(src\/admin\/audit-entry|src\/dashboard\/page\/audit\/audit-page|test\/(http|browser|process)\/)/,
    because: 'the field of /admin/api/audit',
  },
  {
    names: ['deaths', 'under_way', 'waiters', 'trouble'],
    in: /^(src\/admin\/(job-view|overview)|src\/telemetry\/metric-samples|src\/dashboard\/page\/|test\/)/,
    because: 'fields of /admin/api',
  },
  { names: ['kept_answers'], in: /^(src\/cli\/copy|test\/)/, because: 'the field of parley copy --json' },
  {
    names: ['waiters'],
    in: /^bench\/benchmarks\/held-requests/,
    because: 'the name of the benchmark in its results',
  },
  {
    names: ['max_waiters'],
    in: /^(src\/(config|app)\/|test\/|bench\/)/,
    because: 'the setting sync.max_waiters',
  },
  {
    names: ['parley_waiters', 'parley_waiter_places', 'parley_jobs_reclaimed_total'],
    in: /^(test|bench)\//,
    because: 'metrics',
  },
  {
    names: ['callback_lane', 'deaths', 'under_way'],
    in: /^src\/(store|telemetry)\//,
    because: 'columns that row readers map, and a label of metrics',
  },
]

test('no identifier and no file name is a retired one', () => {
  const files = [...SOURCE_FOLDERS, 'test', 'bench', 'scripts']
    .flatMap((folder) =>
      sourcesIn(join(ROOT, folder)).map(({ path, text }) => ({ path: `${folder}/${path}`, text })),
    )
    .filter(({ path }) => path !== 'src/terms.test.ts')
  const retired = new RegExp(`\\b(${RETIRED_NAMES.join('|')})\\b`)
  const wrong = files.flatMap(({ path, text }) => {
    const released = RELEASED_NAMES.filter(({ in: where }) => where.test(path)).flatMap(({ names }) => names)
    const fileName = retired.test(path.replaceAll(/[-./]/g, ' ')) ? [`${path} is named so`] : []
    const names = identifiersIn(splitSource(text).code)
      .filter(({ name, words }) => retired.test(words) && !released.includes(name))
      .map(({ name }) => `${path}: ${name}`)
    return [...fileName, ...names]
  })
  assert.deepEqual(wrong, [])
})

const SOURCES = [
  ...program.map(({ path, text }) => ({ path: `src/${path}`, text })),
  ...clientProgram.map(({ path, text }) => ({ path: `client/src/${path}`, text })),
  ...schemasProgram.map(({ path, text }) => ({ path: `json-schema/src/${path}`, text })),
]

/** Each phrase has a better one in plain technical English. */
const RETIRED_PHRASES: readonly (readonly [phrase: RegExp, better: string])[] = [
  [/\banew\b/, 'again'],
  [/\b(?:tell|tells|telling|told) of\b/, 'report, show'],
  [/\b(?:is|are|was|were|be|been|being) (?:not )?told\b/, 'is informed, gets, is reported'],
  [/\bwants? somebody\b/, 'page someone'],
  [/\bmend(?:s|ed|ing)?\b/, 'fix, correct, repair'],
  [/\bwhom?ever\b/, 'name who'],
  [/\bunder way\b/, 'in progress, running'],
  [/\bbesides\b/, 'in addition to'],
  [/\bstep(?:s|ped|ping)? in\b/, 'admin action'],
  [/\bkept answers?\b/, 'cached response'],
  [/\bg(?:ive|ives|iven|iving|ave) back\b/, 'release'],
  [/\b(?:tak(?:e|es|en|ing)|took) (?:\w+ )?back\b/, 'rescue'],
  [/\breclaim(?:s|ed|ing)?\b/, 'rescue'],
  [/\bdeaths?\b/, 'crash, crash count'],
  [/\bcouriers?\b/, 'callback dispatcher'],
  [/\bin doubt\b/, 'unknown outcome'],
  [/\b(?:an?|the|each|every|refused) acts?\b/, 'admin action, audit entry'],
  [/\bholdings\b/, 'database summary'],
  [/\bwaiters\b/, 'pending responses'],
  [/\bin hand\b/, 'running'],
  [/\bwaits? in line\b/, 'is queued'],
  [/\b(?:head|length|end|rest) of the line\b|\b(?:back to|goes by) the line\b|\blong line of\b/, 'queue'],
  [/(?<!\bthere[\s*]+)\b(?:is|are) no (?!longer|more|less|fewer|later)/, 'is not a'],
  [/\bhas ended without a word\b/, 'exited unexpectedly'],
]

/** The test ignores these words in these files: they are names that earlier versions have published, not prose. */
const RELEASED_WORDS: readonly { readonly words: RegExp; readonly in: RegExp; readonly because: string }[] = [
  { words: /\bdeaths\b/g, in: /^src\/store\//, because: 'columns' },
  { words: /\bwaiters\b/g, in: /^src\/telemetry\//, because: 'a part of metric names' },
  { words: /.+/gs, in: /^src\/store\/\w+\/migrations/, because: 'the text of released migrations stays' },
]

test('no document, message or comment uses a retired phrase', () => {
  const documents = [
    ...markdownFiles(),
    ...readdirSync(join(ROOT, 'deploy'), { recursive: true, encoding: 'utf8' })
      .filter((name) => /\.\w+$/.test(name) || name === 'Caddyfile')
      .map((name) => `deploy/${name}`),
  ].map((path) => ({ path, lines: proseOf(readFileSync(join(ROOT, path), 'utf8')) }))
  const files = SOURCES.map(({ path, text }) => {
    const released = RELEASED_WORDS.filter(({ in: where }) => where.test(path))
    const withoutReleased = (prose: string) =>
      released.reduce((rest, { words }) => rest.replaceAll(words, ''), withoutCode(prose))
    return {
      path,
      lines: proseIn(text).map(({ line, text }) => ({ line, text: withoutReleased(text) })),
    }
  })
  const wrong = [...documents, ...files].flatMap(({ path, lines }) =>
    lines.flatMap(({ line, text }) =>
      RETIRED_PHRASES.filter(([phrase]) => new RegExp(phrase, 'i').test(text)).map(
        ([phrase, better]) => `${path}:${line}: ${new RegExp(phrase, 'i').exec(text)?.[0]} → ${better}`,
      ),
    ),
  )
  assert.deepEqual(wrong, [])
})

type Phrases = readonly (readonly [phrase: RegExp, better: string])[]

/** These phrases sound translated or quaint to a native speaker. A space also matches a line break. */
const QUAINT_PHRASES: Phrases = [
  [/as [\w' ]{1,40} has it/, 'according to'],
  [/in silence/, 'silently'],
  [/beside/, 'next to, while, together with'],
  [/dearer/, 'more expensive'],
  [/goes on|go on|going on|went on/, 'continues'],
  [/for good/, 'permanently'],
  [/in vain/, 'without success'],
  [/looks?-ups?/, 'lookup'],
  [/time-outs?/, 'timeout'],
  [/afresh|henceforth|thereby|therein|thereof|whereby|wherein|thereupon|thrice|betimes/, 'a plain word'],
  [/shall/, 'must, will'],
  [/the present state/, 'the current state'],
  [/in all(?=[,.;:)])/, 'in total'],
  [/to be had/, 'available'],
  [/out of reach/, 'unreachable'],
  [/stands? (?:at|on|beside|between|there)/, 'is'],
  [/learns? of/, 'notices'],
  [/in great number/, 'many'],
]
/** Documents must avoid these phrases too. In code, some of them are terms. */
const QUAINT_IN_DOCUMENTS: Phrases = [
  ...QUAINT_PHRASES,
  [/says?|said/, 'reports, prints, returns, means'],
  [/tells?|told/, 'reports, shows, informs'],
  [/(?:is|are|was|were) none/, 'is not a'],
  [/of (?:ours|yours|theirs)|of one's own/, 'your own, our own'],
  [/lets? it/, 'name who does what: New jobs are rejected'],
  [/as (?:it is|they are|it came|they came|it stands|they stand)/, 'unchanged, as received'],
  [/whose [^.;:]{1,60} (?:it|they) (?:is|are) not/, 'that does not'],
  [/likewise/, 'also, in the same way'],
  [/the like/, 'such as, similar'],
  [/in turns|by turns/, 'alternately, in a fair order'],
  [/(?:is|are|was|were|be|been) tried again/, 'is retried'],
  [/cuts? off/, 'truncated, interrupted, aborted, disconnected'],
  [/hangs? up|hung up/, 'disconnects'],
  [/held against/, 'checked against, compared with'],
  [/pass(?:es|ed)? over/, 'skips, ignores'],
  [/for ever/, 'forever'],
  [/may not/, 'cannot, must not, might not'],
  [/if you like|as you like/, 'optional'],
  [/where (?:there is|there are|there was|it gave)/, 'if there is'],
  [/never was/, 'never existed'],
  [/asks? (?:a|the|another|each) (?:server|database|node|upstream|thread)/, 'queries, calls, requests'],
  [/in (?:the )?place of/, 'instead of'],
  [/a word on|with a word|a word about/, 'explains'],
  [/fails nothing/, 'fails no job'],
  [/get to know|gets to know/, 'find out'],
  [/another's words|the words of/, 'the message'],
  [/not (?:[\w-]+ )?any more/, 'no longer'],
  [/paid (?:again|twice|once)/, 'paid for'],
  [/another [\w-]+ than/, 'a different'],
  [/ends? itself/, 'ends its process'],
  [/takes? (?:it|them) along/, 'remove, end with'],
  [/is (?:as )?unknown as/, 'cannot be distinguished from'],
]
/** Comments, docstrings and messages must avoid these phrases too. */
const QUAINT_IN_CODE: Phrases = [
  ...QUAINT_PHRASES,
  [/of (?:ours|yours|theirs)/, 'our own, your own'],
  [/and the like/, 'for example'],
  [/whatever [^.;:]{1,40} says?/, 'regardless of'],
  [/(?:says?|said) (?:nothing|so|which|why|how)/, 'shows, explains, is set'],
  [/the page before/, 'the previous page'],
  [/not (?:any|a) more/, 'no longer'],
  [/as (?:it came|they came|it stands|they stand)/, 'unchanged, as received'],
  [/(?:an?|the) ended jobs?/, 'finished job'],
  [/to be called (?:once|when|before|after|while)/, 'call this'],
]

test('no document uses a phrase that sounds translated', () => {
  const wrong = markdownFiles().flatMap((path) => {
    const prose = proseOf(readFileSync(join(ROOT, path), 'utf8'))
    const text = prose.map(({ text }) => text).join('\n')
    return QUAINT_IN_DOCUMENTS.flatMap(([{ source }, better]) =>
      [...text.matchAll(new RegExp(`\\b(?:${source.replaceAll(' ', '(?: +| *\\n *)')})(?!\\w)`, 'gi'))].map(
        ({ 0: found, index }) => {
          const { line } = prose[text.slice(0, index).split('\n').length - 1] ?? { line: 0 }
          return `${path}:${line}: ${found.replaceAll(/\s+/g, ' ')} → ${better}`
        },
      ),
    )
  })
  assert.deepEqual(wrong, [])
})

test('no comment and no message in the code uses a phrase that sounds translated', () => {
  const files = SOURCES.filter(({ path }) => !/migrations|standard-schema/.test(path))
  const wrong = files.flatMap(({ path, text }) =>
    proseIn(text).flatMap((prose) => {
      // A phrase may continue on the next line of a comment.
      const joined = withoutCode(prose.text).replaceAll(/\n\s*(?:\*(?!\/) ?|\/\/ ?)?/g, ' ')
      return QUAINT_IN_CODE.flatMap(([{ source }, better]) => {
        const [found] = new RegExp(`\\b(?:${source})(?!\\w)`, 'i').exec(joined) ?? []
        return found === undefined ? [] : [`${path}:${prose.line}: ${found} → ${better}`]
      })
    }),
  )
  assert.deepEqual(wrong, [])
})

/** Two tests need the result, so it is cached. */
function proseIn(source: string): SourceText['prose'] {
  const known = proseBySource.get(source)
  if (known !== undefined) return known
  const { prose } = splitSource(source)
  proseBySource.set(source, prose)
  return prose
}
const proseBySource = new Map<string, SourceText['prose']>()

function markdownFiles(): readonly string[] {
  return '. .github client clients/python docs docs/internals docs/recipes examples examples/two-nodes json-schema'
    .split(' ')
    .filter((folder) => existsSync(join(ROOT, folder)))
    .flatMap((folder) => readdirSync(join(ROOT, folder)).map((name) => join(folder, name)))
    .filter((path) => path.endsWith('.md'))
}

/** Code blocks and queries are left out, because they contain released names. */
function proseOf(document: string): readonly { readonly line: number; readonly text: string }[] {
  let inCode = false
  return document.split('\n').flatMap((text, index) => {
    if (/^\s*```/.test(text)) inCode = !inCode
    return inCode || /"(?:expr|legendFormat)":/.test(text)
      ? []
      : [{ line: index + 1, text: withoutCode(text) }]
  })
}

/** Removes text between backticks, and names of metrics and fields. */
function withoutCode(text: string): string {
  return text.replaceAll(/`[^`\n]*`/g, '').replaceAll(/\b\w+_\w+\b/g, '')
}
