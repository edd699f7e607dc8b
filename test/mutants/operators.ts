/**
 * Makes mistakes that programmers make. Each operator turns a place of a source into edits, and each edit makes one mutant.
 * Operators do not know types, so some mutants do not compile. The run counts those as invalid.
 */
import { sqlEdits } from './sql-operators.ts'
import { nodeIn, nodesIn, parse, type SyntaxNode, visit } from './syntax.ts'

export interface Edit {
  readonly operator: string
  readonly start: number
  readonly end: number
  readonly by: string
}

interface Place {
  readonly node: SyntaxNode
  readonly around: readonly SyntaxNode[]
  readonly textOf: (node: SyntaxNode) => string
  readonly fieldsOf: (object: string) => readonly string[]
}

type Operator = (place: Place) => readonly (readonly [at: SyntaxNode, by: string])[]

const COMPARED: Readonly<Record<string, string>> = {
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '===': '!==',
  '!==': '===',
}
const CALCULATED: Readonly<Record<string, string>> = { '+': '-', '-': '+', '*': '/', '/': '*', '%': '*' }
const CONDITIONAL = [
  'IfStatement',
  'ConditionalExpression',
  'WhileStatement',
  'ForStatement',
  'DoWhileStatement',
]
/** Larger numbers are not changed: most are sizes and times, where a test should not notice a difference of one. */
const LARGEST_INDEX = 10
const SWAPPED = [
  'Identifier',
  'MemberExpression',
  'Literal',
  'TemplateLiteral',
  'CallExpression',
  'BinaryExpression',
]
/** A function with such a return type may return one of these constants instead. */
const CONSTANTS: readonly (readonly [type: RegExp, constants: readonly string[]])[] = [
  [/^boolean$/, ['true', 'false']],
  [/^number$/, ['0', '1']],
  [/^string$/, ["''"]],
  [/(\[\]|^(Readonly)?Array<.*>)$/, ['[]']],
  [/\| null$/, ['null']],
  [/\| undefined$/, ['undefined']],
]

const OPERATORS: Readonly<Record<string, Operator>> = {
  'negated condition': ({ node, textOf }) => {
    const test = CONDITIONAL.includes(node.type) ? nodeIn(node, 'test') : undefined
    return !test || isNot(test) ? [] : [[test, `!(${textOf(test)})`]]
  },
  'dropped !': ({ node, textOf }) => {
    const argument = nodeIn(node, 'argument')
    return isNot(node) && argument ? [[node, textOf(argument)]] : []
  },
  'shifted comparison': (place) => withOperator(place, COMPARED),
  'other calculation': (place) => withOperator(place, CALCULATED),
  'other connective': (place) => withOperator(place, { '&&': '||', '||': '&&' }),
  'dropped condition': ({ node, textOf }) =>
    node.type === 'LogicalExpression' && node.operator !== '??'
      ? ['left', 'right'].flatMap((side) => replaced(node, nodeIn(node, side), textOf))
      : [],
  'wrong branch': ({ node, textOf }) => {
    if (node.type === 'LogicalExpression' && node.operator === '??') {
      return ['left', 'right'].flatMap((side) => replaced(node, nodeIn(node, side), textOf))
    }
    if (node.type !== 'ConditionalExpression') return []
    return ['consequent', 'alternate'].flatMap((side) => replaced(node, nodeIn(node, side), textOf))
  },
  'dropped statement': ({ node, textOf }) => {
    const expression = nodeIn(node, 'expression')
    const ends = ['ContinueStatement', 'ThrowStatement'].includes(node.type)
    const returnsNothing = node.type === 'ReturnStatement' && !nodeIn(node, 'argument')
    if (ends || returnsNothing) return [[node, ';']]
    if (node.type !== 'ExpressionStatement' || !expression) return []
    return /^super\b|^'/.test(textOf(expression)) ? [] : [[node, ';']]
  },
  'dropped await': ({ node, around, textOf }) => {
    const argument = nodeIn(node, 'argument')
    // The caller of a function awaits what the function returns, so an `await` there matters only if errors are caught here.
    const isReturned = ['ReturnStatement', 'ArrowFunctionExpression'].includes(around[0]?.type ?? '')
    const isCaught = around.some(({ type }) => type === 'TryStatement')
    if (node.type !== 'AwaitExpression' || !argument || (isReturned && !isCaught)) return []
    return [[node, textOf(argument)]]
  },
  'swapped arguments': ({ node, textOf }) =>
    ['CallExpression', 'NewExpression'].includes(node.type)
      ? swappedPairs(nodesIn(node, 'arguments'), textOf)
      : [],
  'swapped fields': ({ node, textOf }) => {
    if (node.type !== 'ObjectExpression') return []
    const fields = nodesIn(node, 'properties').filter(({ type, computed, method }) => {
      return type === 'Property' && computed !== true && method !== true
    })
    return swappedFields(fields, textOf)
  },
  'other field': ({ node, around, textOf, fieldsOf }) => {
    const [object, property] = [nodeIn(node, 'object'), nodeIn(node, 'property')]
    const isCalled = around[0]?.type === 'CallExpression' && around[0].callee === node
    if (node.type !== 'MemberExpression' || node.computed || isCalled || !object || !property) return []
    const fields = fieldsOf(textOf(object))
    const next = fields[(fields.indexOf(textOf(property)) + 1) % fields.length]
    return next === undefined || next === textOf(property) ? [] : [[property, next]]
  },
  'removed bound': ({ node, textOf }) => {
    const callee = nodeIn(node, 'callee')
    const [, bound] = (callee && /^Math\.(min|max)$/.exec(textOf(callee))) ?? []
    if (node.type !== 'CallExpression' || !callee || !bound) return []
    const values = nodesIn(node, 'arguments').filter(({ type }) => type !== 'SpreadElement')
    const alone = values.map((value) => [node, `(${textOf(value)})`] as const)
    return [...alone, [callee, bound === 'min' ? 'Math.max' : 'Math.min']]
  },
  'off by one': ({ node, around }) => {
    const isIndex = ['BinaryExpression', 'CallExpression', 'MemberExpression'].includes(around[0]?.type ?? '')
    const { value } = node
    if (node.type !== 'Literal' || typeof value !== 'number' || !Number.isInteger(value)) return []
    if (value > LARGEST_INDEX || !isIndex) return []
    return value === 0
      ? [[node, '1']]
      : [
          [node, `${value + 1}`],
          [node, `${value - 1}`],
        ]
  },
  'other constant': ({ node }) =>
    node.type === 'Literal' && typeof node.value === 'boolean' ? [[node, `${!node.value}`]] : [],
  'returned constant': ({ node, around, textOf }) => {
    const argument = nodeIn(node, 'argument')
    const of = around.find(({ type }) => type.includes('Function'))
    const type = of && nodeIn(of, 'returnType')
    if (node.type !== 'ReturnStatement' || !argument || !type) return []
    const text = textOf(type).replace(/^:\s*/, '')
    const [, awaited] = /^Promise<(.*)>$/s.exec(text) ?? []
    const found = CONSTANTS.find(([form]) => form.test((of.async ? awaited : undefined) ?? text))
    return (found?.[1] ?? []).filter((one) => one !== textOf(argument)).map((one) => [argument, one])
  },
}

/**
 * Returns every edit of the source, in the order of its text. The same text always has the same edits.
 * @param hasSql whether its strings are SQL
 */
export function editsOf(text: string, hasSql: boolean): readonly Edit[] {
  const edits: Edit[] = []
  const tree = parse(text)
  const textOf = ({ start, end }: SyntaxNode) => text.slice(start, end)
  const fields = readFields(tree, textOf)
  const fieldsOf = (object: string) => fields.get(object) ?? []
  visit(tree, (node, around) => {
    for (const [operator, apply] of Object.entries(OPERATORS)) {
      const found = apply({ node, around, textOf, fieldsOf })
      edits.push(...found.map(([{ start, end }, by]) => ({ operator, start, end, by })))
    }
    if (hasSql) edits.push(...sqlEdits(node, text))
  })
  return edits.toSorted((a, b) => a.start - b.start || a.end - b.end)
}

function isNot(node: SyntaxNode): boolean {
  return node.type === 'UnaryExpression' && node.operator === '!'
}

function replaced(
  node: SyntaxNode,
  part: SyntaxNode | undefined,
  textOf: Place['textOf'],
): ReturnType<Operator> {
  return part ? [[node, `(${textOf(part)})`]] : []
}

function withOperator(
  { node, textOf }: Place,
  others: Readonly<Record<string, string>>,
): ReturnType<Operator> {
  const [left, right] = [nodeIn(node, 'left'), nodeIn(node, 'right')]
  const other = typeof node.operator === 'string' ? others[node.operator] : undefined
  if (!['BinaryExpression', 'LogicalExpression'].includes(node.type) || !other || !left || !right) return []
  const changed = `${textOf(left)} ${other} ${textOf(right)}`
  return [[node, node.type === 'LogicalExpression' ? `(${changed})` : changed]]
}

/** Swaps neighbors that could have the same type. An edit covers both and what is between them. */
function swappedPairs(nodes: readonly SyntaxNode[], textOf: Place['textOf']): ReturnType<Operator> {
  return nodes.flatMap((first, at) => {
    const second = nodes[at + 1]
    if (!second || textOf(first) === textOf(second)) return []
    if (![first, second].every(({ type }) => SWAPPED.includes(type))) return []
    const span = { type: 'Pair', start: first.start, end: second.end }
    const between = textOf({ type: 'Gap', start: first.end, end: second.start })
    return [[span, `${textOf(second)}${between}${textOf(first)}`]]
  })
}

function swappedFields(fields: readonly SyntaxNode[], textOf: Place['textOf']): ReturnType<Operator> {
  return fields.flatMap((first, at) => {
    const second = fields[at + 1]
    const [firstKey, firstValue] = [nodeIn(first, 'key'), nodeIn(first, 'value')]
    const [secondKey, secondValue] = second ? [nodeIn(second, 'key'), nodeIn(second, 'value')] : []
    if (!second || !firstKey || !firstValue || !secondKey || !secondValue) return []
    if (textOf(firstValue) === textOf(secondValue)) return []
    if (![firstValue, secondValue].every(({ type }) => SWAPPED.includes(type))) return []
    const span = { type: 'Pair', start: first.start, end: second.end }
    const between = textOf({ type: 'Gap', start: first.end, end: second.start })
    const firstNow = `${textOf(firstKey)}: ${textOf(secondValue)}`
    return [[span, `${firstNow}${between}${textOf(secondKey)}: ${textOf(firstValue)}`]]
  })
}

/** Maps the text of each object to the fields that are read of it, in alphabetical order, without methods that are called. */
function readFields(tree: SyntaxNode, textOf: Place['textOf']): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, Set<string>>()
  visit(tree, (node, around) => {
    const [object, property] = [nodeIn(node, 'object'), nodeIn(node, 'property')]
    const isCalled = around[0]?.type === 'CallExpression' && around[0].callee === node
    if (node.type !== 'MemberExpression' || node.computed || isCalled || !object || !property) return
    const fields = found.get(textOf(object)) ?? new Set()
    found.set(textOf(object), fields.add(textOf(property)))
  })
  return new Map([...found].map(([object, fields]) => [object, [...fields].toSorted()]))
}
