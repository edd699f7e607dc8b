/**
 * Reads selectors and grouping labels from PromQL expressions, for tests of the alert rules and the Grafana dashboard. Handles
 * only the syntax that those files use.
 */

export interface Selector {
  readonly metric: string
  readonly matchers: readonly Matcher[]
}

export interface Matcher {
  readonly label: string
  readonly operator: '=' | '!=' | '=~' | '!~'
  readonly value: string
}

const GROUPING = /\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)/g
const WORDS = new Set(['and', 'or', 'unless', 'offset', 'bool'])
/** Matches a metric name: a name that is neither a function nor the end of a number, duration or variable. */
const SELECTOR = /(?<![\w.$])([a-zA-Z_:][\w:]*)(?!\w)(?!\s*\()(?:\{([^}]*)\})?/g

export function selectorsOf(expression: string): Selector[] {
  const bare = expression.replaceAll(GROUPING, ' ').replaceAll(/\[[^\]]*\]/g, ' ')
  return [...bare.matchAll(SELECTOR)]
    .filter(([, metric = '']) => !WORDS.has(metric))
    .map(([, metric = '', matchers = '']) => ({ metric, matchers: matchersIn(matchers) }))
}

export function groupedBy(expression: string): string[] {
  return [...expression.matchAll(GROUPING)].flatMap(([, labels = '']) => wordsIn(labels))
}

function matchersIn(text: string): Matcher[] {
  const found = [...text.matchAll(/(\w+)(=~|!~|!=|=)"((?:[^"\\]|\\.)*)"/g)]
  return found.map(([, label = '', operator, value = '']) => ({
    label,
    operator: operator as Matcher['operator'],
    value,
  }))
}

function wordsIn(text: string): string[] {
  return text.split(/[\s,]+/).filter((word) => word !== '')
}

export interface Sample {
  readonly metric: string
  readonly labels: Readonly<Record<string, string>>
}

export function samplesIn(scrape: string): Sample[] {
  const lines = scrape.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return lines.map((line) => {
    const [, metric = '', labels = ''] = /^([\w:]+)(?:\{(.*)\})? \S+$/.exec(line) ?? []
    return { metric, labels: Object.fromEntries(matchersIn(labels).map((m) => [m.label, m.value])) }
  })
}

/** As in Prometheus, an absent label equals an empty one, and regular expressions match the whole value. */
export function selects({ metric, matchers }: Selector, sample: Sample): boolean {
  return (
    sample.metric === metric &&
    matchers.every(({ label, operator, value }) => {
      const found = sample.labels[label] ?? ''
      const matches = operator.endsWith('~') ? new RegExp(`^(?:${value})$`).test(found) : found === value
      return matches !== operator.startsWith('!')
    })
  )
}
