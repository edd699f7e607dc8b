/** Makes mistakes in SQL inside strings and templates. Each pattern is replaced wherever it occurs. */
import type { Edit } from './operators.ts'
import { nodesIn, type SyntaxNode } from './syntax.ts'

/** A string that matches none of these, such as a message, is not SQL. */
const SQL =
  /\b(select|insert into|update \w+|delete from|from \w+|where|order by|limit|returning|values|is null|is not null|and \w+[. ]|\w+ = \$\d)\b/

const RULES: readonly (readonly [operator: string, found: RegExp, by: string])[] = [
  ['SQL: shifted comparison', / < /g, ' <= '],
  ['SQL: shifted comparison', / <= /g, ' < '],
  ['SQL: shifted comparison', / > /g, ' >= '],
  ['SQL: shifted comparison', / >= /g, ' > '],
  ['SQL: other connective', /(?<!\bbetween \S+ )\band\b/g, 'or'],
  ['SQL: other connective', /\bor\b(?! replace\b)/g, 'and'],
  ['SQL: dropped limit', /\blimit [$:@?]?\w+/g, ''],
  ['SQL: other bound', /\bmin\(/g, 'max('],
  ['SQL: other bound', /\bmax\(/g, 'min('],
  ['SQL: other bound', /\bleast\(/g, 'greatest('],
  ['SQL: other bound', /\bgreatest\(/g, 'least('],
  ['SQL: other order', /\bdesc\b/g, 'asc'],
  ['SQL: other order', /(?<=\border by [\w.]+)(?=[ ,\n)]|$)(?! (?:asc|desc)\b)/g, ' desc'],
  ['SQL: negated condition', /\bis null\b/g, 'is not null'],
  ['SQL: negated condition', /\bis not null\b/g, 'is null'],
  ['SQL: negated condition', /\bnot exists\b/g, 'exists'],
  ['SQL: negated condition', /\bnot in\b/g, 'in'],
  ['SQL: dropped lock', /\bfor (?:no key )?update(?: of \w+)?(?: skip locked| nowait)?/g, ''],
  ['SQL: dropped lock', / skip locked\b/g, ''],
  ['SQL: off by one', / \+ 1\b/g, ' + 2'],
  ['SQL: off by one', / - 1\b/g, ''],
  ['SQL: other calculation', / \+ (?=[$:@\w(])/g, ' - '],
  ['SQL: other calculation', / - (?=[$:@\w(])/g, ' + '],
  ['SQL: dropped distinct', /\bdistinct /g, ''],
]

const IN_COMMENT = /--[^\n]*$/

export function sqlEdits(node: SyntaxNode, text: string): readonly Edit[] {
  if (node.type === 'Literal' && typeof node.value === 'string')
    return editsIn(node.start + 1, node.end - 1, text)
  if (node.type !== 'TemplateLiteral' || !SQL.test(text.slice(node.start, node.end))) return []
  const expressions = nodesIn(node, 'expressions')
  return nodesIn(node, 'quasis').flatMap(({ start, end }, at) => {
    const edits = editsIn(start, end, text, true)
    const limit = /\blimit $/.exec(text.slice(start, end))
    const value = expressions[at]
    if (!limit || !value) return edits
    const dropped = { operator: 'SQL: dropped limit', start: start + limit.index, end: value.end + 1, by: '' }
    return [...edits, dropped]
  })
}

function editsIn(start: number, end: number, text: string, isSql = false): readonly Edit[] {
  const part = text.slice(start, end)
  if (!isSql && !SQL.test(part)) return []
  const isCode = ({ index }: RegExpExecArray) => !IN_COMMENT.test(part.slice(0, index))
  return RULES.flatMap(([operator, found, by]) =>
    [...part.matchAll(found)].filter(isCode).map(({ index, 0: { length } }) => {
      return { operator, start: start + index, end: start + index + length, by }
    }),
  )
}
