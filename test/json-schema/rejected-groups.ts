/**
 * Lists the groups of the official test suite whose schema is rejected, by reason. The test fails if a group no longer belongs
 * on the list.
 */

/** A reason to reject a schema, and the rule's message. */
export const REASONS = {
  /** The root is not an object, so it does not describe a structured answer. */
  booleanRoot: /^must be an object$/,
  /** Nothing is fetched, not even the schema of a draft. */
  remoteRef: /^must refer to a part of this schema/,
  /** A nested `$id` would change the target of each `$ref` below it. */
  nestedId: /^is only supported at the root/,
  dynamicRef: /^is not supported; use \$ref/,
  /** These keywords depend on which branches of others an answer takes. */
  unevaluated: /^is not supported; put the properties or items/,
} as const

export type Reason = keyof typeof REASONS

/** Descriptions of groups by file. */
type Groups = Readonly<Record<string, readonly string[]>>

export const REJECTED: Readonly<Record<'draft2020-12' | 'draft7', Partial<Record<Reason, Groups>>>> = {
  'draft2020-12': {
    nestedId: {
      'anchor.json': [
        'Location-independent identifier with absolute URI',
        'Location-independent identifier with base URI change in subschema',
        'same $anchor with different base uri',
      ],
      'dynamicRef.json': [
        'A $dynamicRef resolves to the first $dynamicAnchor still in scope that is encountered when the schema is evaluated',
        'A $dynamicRef without anchor in fragment behaves identical to $ref',
        "A $dynamicRef with intermediate scopes that don't include a matching $dynamicAnchor does not affect dynamic scope resolution",
        'An $anchor with the same name as a $dynamicAnchor is not used for dynamic scope resolution',
        'A $dynamicRef without a matching $dynamicAnchor in the same schema resource behaves like a normal $ref to $anchor',
        'A $dynamicRef with a non-matching $dynamicAnchor in the same schema resource behaves like a normal $ref to $anchor',
        'A $dynamicRef that initially resolves to a schema with a matching $dynamicAnchor resolves to the first $dynamicAnchor in the dynamic scope',
        'A $dynamicRef that initially resolves to a schema without a matching $dynamicAnchor behaves like a normal $ref to $anchor',
        'multiple dynamic paths to the $dynamicRef keyword',
        'after leaving a dynamic scope, it is not used by a $dynamicRef',
      ],
      'id.json': ['$id inside an enum is not a real identifier'],
      'ref.json': [
        'Recursive references between schemas',
        'refs with relative uris and defs',
        'relative refs with absolute uris and defs',
        '$id must be resolved against nearest parent, not just immediate parent',
        'order of evaluation: $id and $ref',
        'order of evaluation: $id and $anchor and $ref',
        'URN ref with nested pointer ref',
        'ref to if',
        'ref to then',
        'ref to else',
        'ref with absolute-path-reference',
      ],
      'refRemote.json': [
        'base URI change',
        'base URI change - change folder',
        'base URI change - change folder in subschema',
      ],
      'unknownKeyword.json': ['$id inside an unknown keyword is not a real identifier'],
    },
    remoteRef: {
      'anchor.json': ['invalid anchors'],
      'defs.json': ['validate definition against metaschema'],
      'dynamicRef.json': [
        'tests for implementation dynamic anchor and reference link',
        '$ref and $dynamicAnchor are independent of order - $defs first',
        '$ref and $dynamicAnchor are independent of order - $ref first',
      ],
      'id.json': [
        'Invalid use of fragments in location-independent $id',
        'Valid use of empty fragments in location-independent $id',
        'Unnormalized $ids are allowed but discouraged',
      ],
      'ref.json': ['remote ref, containing refs itself', 'URN base URI with f-component'],
      'refRemote.json': [
        'remote ref',
        'fragment within remote ref',
        'anchor within remote ref',
        'ref within remote ref',
        'root ref in remote ref',
        'remote ref with ref to defs',
        'Location-independent identifier in remote ref',
        'retrieved nested refs resolve relative to their URI not $id',
        'remote HTTP ref with different $id',
        'remote HTTP ref with different URN $id',
        'remote HTTP ref with nested absolute ref',
      ],
    },
    booleanRoot: {
      'boolean_schema.json': ["boolean schema 'true'", "boolean schema 'false'"],
    },
    dynamicRef: {
      'dynamicRef.json': [
        'A $dynamicRef to a $dynamicAnchor in the same schema resource behaves like a normal $ref to an $anchor',
        'A $dynamicRef to an $anchor in the same schema resource behaves like a normal $ref to an $anchor',
      ],
    },
    unevaluated: {
      'dynamicRef.json': ['strict-tree schema, guards against misspelled properties'],
      'not.json': ["collect annotations inside a 'not', even if collection is disabled"],
      'ref.json': ['ref creates new scope when adjacent to keywords'],
      'unevaluatedProperties.json': [
        'unevaluatedProperties true',
        'unevaluatedProperties schema',
        'unevaluatedProperties false',
        'unevaluatedProperties with adjacent properties',
        'unevaluatedProperties with adjacent patternProperties',
        'unevaluatedProperties with adjacent additionalProperties',
        'unevaluatedProperties with nested properties',
        'unevaluatedProperties with nested patternProperties',
        'unevaluatedProperties with nested additionalProperties',
        'unevaluatedProperties with nested unevaluatedProperties',
        'unevaluatedProperties with anyOf',
        'unevaluatedProperties with oneOf',
        'unevaluatedProperties with not',
        'unevaluatedProperties with if/then/else',
        'unevaluatedProperties with if/then/else, then not defined',
        'unevaluatedProperties with if/then/else, else not defined',
        'unevaluatedProperties with dependentSchemas',
        'unevaluatedProperties with boolean schemas',
        'unevaluatedProperties with $ref',
        "unevaluatedProperties can't see inside cousins",
        "unevaluatedProperties can't see inside cousins (reverse order)",
        'nested unevaluatedProperties, outer false, inner true, properties outside',
        'nested unevaluatedProperties, outer false, inner true, properties inside',
        'nested unevaluatedProperties, outer true, inner false, properties outside',
        'nested unevaluatedProperties, outer true, inner false, properties inside',
        'cousin unevaluatedProperties, true and false, true with properties',
        'cousin unevaluatedProperties, true and false, false with properties',
        'property is evaluated in an uncle schema to unevaluatedProperties',
        'in-place applicator siblings, allOf has unevaluated',
        'in-place applicator siblings, anyOf has unevaluated',
        'unevaluatedProperties + single cyclic ref',
        'unevaluatedProperties + ref inside allOf / oneOf',
        'dynamic evalation inside nested refs',
        'non-object instances are valid',
        'unevaluatedProperties with null valued instance properties',
        'unevaluatedProperties not affected by propertyNames',
      ],
      'unevaluatedItems.json': [
        'unevaluatedItems true',
        'unevaluatedItems false',
        'unevaluatedItems as schema',
        'unevaluatedItems with uniform items',
        'unevaluatedItems with tuple',
        'unevaluatedItems with items and prefixItems',
        'unevaluatedItems with items',
        'unevaluatedItems with nested tuple',
        'unevaluatedItems with nested items',
        'unevaluatedItems with nested prefixItems and items',
        'unevaluatedItems with nested unevaluatedItems',
        'unevaluatedItems with anyOf',
        'unevaluatedItems with oneOf',
        'unevaluatedItems with not',
        'unevaluatedItems with if/then/else',
        'unevaluatedItems with boolean schemas',
        'unevaluatedItems with $ref',
        "unevaluatedItems can't see inside cousins",
        'item is evaluated in an uncle schema to unevaluatedItems',
        'unevaluatedItems depends on adjacent contains',
        'unevaluatedItems depends on multiple nested contains',
        'unevaluatedItems and contains interact to control item dependency relationship',
        'non-array instances are valid',
        'unevaluatedItems with null instance elements',
      ],
    },
  },
  draft7: {
    booleanRoot: {
      'boolean_schema.json': ["boolean schema 'true'", "boolean schema 'false'"],
    },
    remoteRef: {
      'definitions.json': ['validate definition against metaschema'],
      'ref.json': ['remote ref, containing refs itself'],
      'refRemote.json': [
        'remote ref',
        'fragment within remote ref',
        'ref within remote ref',
        'root ref in remote ref',
        'remote ref with ref to definitions',
        'Location-independent identifier in remote ref',
        'retrieved nested refs resolve relative to their URI not $id',
      ],
    },
    nestedId: {
      'id.json': ['id inside an enum is not a real identifier'],
      'ref.json': [
        '$ref prevents a sibling $id from changing the base uri',
        'Recursive references between schemas',
        'Location-independent identifier with base URI change in subschema',
        'refs with relative uris and defs',
        'relative refs with absolute uris and defs',
        '$id must be resolved against nearest parent, not just immediate parent',
        'ref to if',
        'ref to then',
        'ref to else',
        'ref with absolute-path-reference',
      ],
      'refRemote.json': [
        'base URI change',
        'base URI change - change folder',
        'base URI change - change folder in subschema',
      ],
      'unknownKeyword.json': ['$id inside an unknown keyword is not a real identifier'],
    },
  },
}
