/** Reads a source as a syntax tree whose nodes have exact offsets, so that a mutant is an edit of the text. */
import { tsPlugin } from '@sveltejs/acorn-typescript'
import { Parser } from 'acorn'

const TypeScript = Parser.extend(tsPlugin())

/** Nodes have the form of ESTree. Each operator must check the fields that it reads. */
export interface SyntaxNode {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [field: string]: unknown
}

/** Throws a `SyntaxError` if the text is not TypeScript. */
export function parse(text: string): SyntaxNode {
  const tree: unknown = TypeScript.parse(text, {
    ecmaVersion: 'latest',
    sourceType: 'module',
    locations: true,
  })
  if (!isNode(tree)) throw new Error('the parser returned no tree')
  return tree
}

export function isNode(value: unknown): value is SyntaxNode {
  return typeof value === 'object' && value !== null && 'type' in value && 'start' in value && 'end' in value
}

export function nodeIn(node: SyntaxNode, field: string): SyntaxNode | undefined {
  const value = node[field]
  return isNode(value) ? value : undefined
}

export function nodesIn(node: SyntaxNode, field: string): readonly SyntaxNode[] {
  const value = node[field]
  return Array.isArray(value) ? value.filter(isNode) : []
}

/** These nodes wrap expressions. Every other node whose name begins with `TS` is a type. */
const EXPRESSIONS = ['TSAsExpression', 'TSNonNullExpression', 'TSSatisfiesExpression']

/**
 * Leaves out nodes that do not run, such as types, imports and re-exports. `around` has the node's ancestors, the innermost
 * first.
 */
export function visit(
  node: SyntaxNode,
  onNode: (node: SyntaxNode, around: readonly SyntaxNode[]) => void,
  around: readonly SyntaxNode[] = [],
): void {
  if (node.type.startsWith('TS') && !EXPRESSIONS.includes(node.type)) return
  if (node.type.startsWith('Import') && node.type !== 'ImportExpression') return
  onNode(node, around)
  const inside = [node, ...around]
  for (const value of Object.values(node)) {
    for (const child of Array.isArray(value) ? value : [value]) {
      if (isNode(child)) visit(child, onNode, inside)
    }
  }
}
