// Generates src/lib/types.ts, the types of the HTTP interface, from the program's OpenAPI document:
//
//     node scripts/types.mjs http://127.0.0.1:8470
//
// A test over the program fails if the file is stale.

import { readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { format, resolveConfig } from 'prettier';

/** The generated file. */
export const FILE = fileURLToPath(new URL('../src/lib/types.ts', import.meta.url));

/** Characters in a line of a comment. */
const WIDTH = 110;

/** A comment, in lines that fit into the width of sources. */
function comment(text) {
  if (!text) return '';
  const lines = [''];
  for (const word of text.replaceAll('*/', '* /').trim().split(/\s+/)) {
    const line = `${lines.at(-1)} ${word}`.trim();
    if (line.length > WIDTH && lines.at(-1) !== '') lines.push(word);
    else lines[lines.length - 1] = line;
  }
  return lines.length === 1 ? `/** ${lines[0]} */\n` : `/**\n${lines.map((line) => ` * ${line}\n`).join('')} */\n`;
}

/** The type of a schema (JSON Schema 2020-12, as far as the document uses it). */
function type(schema) {
  if (schema.$ref) return schema.$ref.split('/').at(-1);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(' | ');
  const any = schema.oneOf ?? schema.anyOf;
  if (any) return any.map(type).join(' | ');
  if (schema.allOf) return schema.allOf.map(type).join(' & ');
  if (Array.isArray(schema.type)) return schema.type.map((one) => type({ ...schema, type: one })).join(' | ');
  switch (schema.type) {
    case 'array': {
      const item = schema.items ? type(schema.items) : 'unknown';
      if (schema.minItems !== undefined && schema.minItems === schema.maxItems) {
        return `[${Array(schema.minItems).fill(item).join(', ')}]`;
      }
      return `(${item})[]`;
    }
    case 'object':
      if (schema.properties) return members(schema);
      return `Record<string, ${schema.additionalProperties ? type(schema.additionalProperties) : 'unknown'}>`;
    case 'integer':
    case 'number':
      return 'number';
    case 'boolean':
    case 'string':
    case 'null':
      return schema.type;
    default:
      return 'unknown';
  }
}

function members(schema) {
  const required = new Set(schema.required);
  const member = ([name, of]) => {
    const mark = required.has(name) ? '' : '?';
    return `${comment(describe(of))}${/^\w+$/.test(name) ? name : JSON.stringify(name)}${mark}: ${type(of)};\n`;
  };
  return `{\n${Object.entries(schema.properties).map(member).join('')}}`;
}

/** The description of a schema; that of a reference that may be absent is beside the reference. */
function describe(schema) {
  return schema.description ?? schema.oneOf?.find((one) => one.description)?.description;
}

/** The text of the generated file. */
export async function typescript(document) {
  const schemas = Object.entries(document.components.schemas).sort(([a], [b]) => (a < b ? -1 : 1));
  const declarations = schemas.map(([name, schema]) => {
    const is = schema.properties ? `interface ${name} ${members(schema)}` : `type ${name} = ${type(schema)};`;
    return `${comment(schema.description)}export ${is}\n`;
  });
  const head = '// The types of the HTTP interface. Generated from its OpenAPI document by scripts/types.mjs: do not edit.\n\n';
  return format(head + declarations.join('\n'), { ...(await resolveConfig(FILE)), filepath: FILE });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const from = process.argv[2] ?? 'http://127.0.0.1:8470';
  const document = from.startsWith('http')
    ? await (await fetch(new URL('/api/openapi.json', from))).json()
    : JSON.parse(readFileSync(from, 'utf8'));
  writeFileSync(FILE, await typescript(document));
}
