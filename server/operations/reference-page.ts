/** The reference page: every operation, error code and schema of the contract, in one HTML file without scripts. */

/** A part of the document. It was linted before it was bundled, so that its shape is known. */
interface Part {
  readonly [key: string]: unknown;
}

/** The page as HTML. */
export function referencePage(contract: Part): string {
  const info = part(contract, 'info');
  const tags = parts(contract, 'tags');
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(text(info, 'title'))}</title>
<style>${style}</style>
</head>
<body>
<nav aria-label="Contents">${contents(contract, tags)}</nav>
<main>
<h1>${escapeHtml(text(info, 'title'))}</h1>
${prose(text(info, 'description'))}
<p>The same as data: <a href="/openapi.json">openapi.json</a>, <a href="/openapi.yaml">openapi.yaml</a>; the
settings file: <a href="/schemas/service.json">its JSON Schema</a>.</p>
${tags.map((tag) => family(contract, tag)).join('\n')}
${errorCodes(contract)}
${schemas(contract)}
</main>
</body>
</html>
`;
}

interface Placed {
  readonly method: string;
  readonly path: string;
  readonly operation: Part;
  readonly parameters: readonly Part[];
}

function operationsOf(contract: Part, tag: string): readonly Placed[] {
  return Object.keys(part(contract, 'paths')).flatMap((path) => {
    const item = part(part(contract, 'paths'), path);
    return ['get', 'post', 'put', 'patch', 'delete']
      .filter((method) => method in item)
      .map((method) => ({ method: method.toUpperCase(), path, operation: part(item, method), item }))
      .filter(({ operation }) => Array.isArray(operation.tags) && operation.tags.includes(tag))
      .map(({ item: _item, ...placed }) => ({
        ...placed,
        parameters: [...parts(item, 'parameters'), ...parts(placed.operation, 'parameters')].map((one) =>
          follow(contract, one),
        ),
      }));
  });
}

function contents(contract: Part, tags: readonly Part[]): string {
  const families = tags.map((tag) => {
    const name = text(tag, 'name');
    const links = operationsOf(contract, name).map(
      ({ operation }) => `<li><a href="#${id(operation)}">${escapeHtml(text(operation, 'summary'))}</a></li>`,
    );
    return `<li><a href="#family-${name}">${escapeHtml(name)}</a><ul>${links.join('')}</ul></li>`;
  });
  return `<ul>${families.join('')}<li><a href="#errors">Errors</a></li><li><a href="#schemas">Schemas</a></li></ul>`;
}

function family(contract: Part, tag: Part): string {
  const name = text(tag, 'name');
  const operations = operationsOf(contract, name).map((placed) => operationSection(contract, placed));
  return `<section id="family-${name}"><h2>${escapeHtml(name)}</h2>${prose(text(tag, 'description'))}
${operations.join('\n')}</section>`;
}

function operationSection(contract: Part, { method, path, operation, parameters }: Placed): string {
  return `<article id="${id(operation)}">
<h3>${escapeHtml(text(operation, 'summary'))}</h3>
<p class="call"><b class="${method.toLowerCase()}">${method}</b> <code>${escapeHtml(path)}</code>
<span>${escapeHtml(accessOf(operation))}</span></p>
${prose(text(operation, 'description'))}
${parameterTable(contract, parameters)}
${requestBody(contract, operation)}
${responses(contract, operation)}
</article>`;
}

function accessOf(operation: Part): string {
  const access = part(operation, 'x-access');
  const scope = access.scope === undefined ? '' : `, scope ${text(access, 'scope')}`;
  const who: Record<string, string> = {
    public: 'no credential needed',
    principal: `login or API key${scope}`,
    login: 'login only',
    operator: 'operator only',
  };
  return who[text(access, 'allow')] ?? '';
}

function parameterTable(contract: Part, parameters: readonly Part[]): string {
  if (parameters.length === 0) return '';
  const rows = parameters.map(
    (one) =>
      `<tr><td><code>${escapeHtml(text(one, 'name'))}</code></td><td>${escapeHtml(text(one, 'in'))}</td>` +
      `<td>${typeOf(contract, part(one, 'schema'))}</td><td>${inline(text(one, 'description'))}</td></tr>`,
  );
  return table('Parameters', ['name', 'in', 'type', 'meaning'], rows);
}

function requestBody(contract: Part, operation: Part): string {
  const body = part(operation, 'requestBody');
  const [type] = Object.keys(part(body, 'content'));
  if (type === undefined) return '';
  const media = part(part(body, 'content'), type);
  const need = body.required === true ? '' : ', optional';
  return `<h4>Body</h4><p><code>${escapeHtml(type)}</code>${need}: ${typeOf(contract, part(media, 'schema'))}</p>${example(media)}`;
}

function responses(contract: Part, operation: Part): string {
  const declared = part(operation, 'responses');
  const rows = Object.keys(declared).map((status) => {
    const response = follow(contract, part(declared, status));
    const bodies = Object.keys(part(response, 'content')).map((type) => {
      const schema = part(part(part(response, 'content'), type), 'schema');
      return `<code>${escapeHtml(type)}</code> ${typeOf(contract, schema)}`;
    });
    return `<tr><td>${escapeHtml(status)}</td><td>${inline(text(response, 'description'))}</td><td>${bodies.join('<br>')}</td></tr>`;
  });
  const success = Object.keys(declared).find((status) => status.startsWith('2')) ?? '';
  const content = part(follow(contract, part(declared, success)), 'content');
  const examples = Object.keys(content).map((type) => example(part(content, type)));
  return `${table('Responses', ['status', 'when', 'body'], rows)}${examples.join('')}`;
}

/** The codes stand in the description of their schema as a table; each gets the anchor that a problem's type names. */
function errorCodes(contract: Part): string {
  const description = text(part(part(part(contract, 'components'), 'schemas'), 'ProblemCode'), 'description');
  const rows = [...description.matchAll(/^\| `(\w+)` \| (\d+) \| (.+) \|$/gm)].map(
    ([, code = '', status = '', meaning = '']) =>
      `<tr id="${code}"><td><a href="#${code}"><code>${code}</code></a></td><td>${status}</td><td>${inline(meaning)}</td></tr>`,
  );
  return `<section id="errors"><h2>Errors</h2>
<p>An error is a <a href="#schema-Problem">Problem</a>, or a <a href="#schema-MessagesError">MessagesError</a> under
<code>/v1</code>. The list of codes is closed.</p>
${table('', ['code', 'status', 'meaning'], rows)}</section>`;
}

function schemas(contract: Part): string {
  const all = part(part(contract, 'components'), 'schemas');
  const sections = Object.keys(all)
    .sort()
    .map((name) => schemaSection(contract, name, part(all, name)));
  return `<section id="schemas"><h2>Schemas</h2>${sections.join('\n')}</section>`;
}

function schemaSection(contract: Part, name: string, schema: Part): string {
  const required = Array.isArray(schema.required) ? schema.required : [];
  const rows = Object.keys(part(schema, 'properties')).map((key) => {
    const property = part(part(schema, 'properties'), key);
    const need = required.includes(key) ? '' : ' <i>optional</i>';
    return `<tr><td><code>${escapeHtml(key)}</code>${need}</td><td>${typeOf(contract, property)}</td><td>${inline(text(property, 'description'))}</td></tr>`;
  });
  const shape =
    rows.length > 0 ? table('', ['member', 'type', 'meaning'], rows) : `<p>${typeOf(contract, schema)}</p>`;
  // The codes have a section of their own.
  const description = name === 'ProblemCode' ? '' : prose(text(schema, 'description'));
  return `<article id="schema-${name}"><h3>${name}</h3>${description}${shape}</article>`;
}

/** A schema in a few words, with links to the named ones. */
function typeOf(contract: Part, schema: Part): string {
  if (typeof schema.$ref === 'string') {
    const name = schema.$ref.split('/').at(-1) ?? '';
    return `<a href="#schema-${name}">${name}</a>`;
  }
  const branches = [...parts(schema, 'oneOf'), ...parts(schema, 'allOf')];
  if (branches.length > 0) return branches.map((branch) => typeOf(contract, branch)).join(' or ');
  if ('const' in schema) return `<code>${escapeHtml(JSON.stringify(schema.const))}</code>`;
  if (Array.isArray(schema.enum))
    return schema.enum.map((one) => `<code>${escapeHtml(String(one))}</code>`).join(' ');
  if (schema.type === 'array') return `list of ${typeOf(contract, part(schema, 'items'))}`;
  const type = Array.isArray(schema.type) ? schema.type.join(' or ') : String(schema.type ?? 'anything');
  return escapeHtml(type) + escapeHtml(boundsOf(schema));
}

const bounds: readonly (readonly [string, string])[] = [
  ['format', ''],
  ['minimum', 'from '],
  ['maximum', 'to '],
  ['minLength', 'at least '],
  ['maxLength', 'at most '],
  ['default', 'default '],
];

function boundsOf(schema: Part): string {
  const said = bounds.filter(([key]) => key in schema).map(([key, word]) => `${word}${String(schema[key])}`);
  return said.length > 0 ? ` (${said.join(', ')})` : '';
}

function example(media: Part): string {
  const events = parts(media, 'x-example-events');
  if (events.length > 0) return block(events.map(eventLines).join('\n'));
  const examples = part(media, 'examples');
  const [name] = Object.keys(examples);
  return name === undefined ? '' : block(JSON.stringify(part(examples, name).value, null, 2));
}

function eventLines(event: Part): string {
  const lines = [
    ...(event.id === undefined ? [] : [`id: ${String(event.id)}`]),
    ...(event.event === undefined ? [] : [`event: ${String(event.event)}`]),
    `data: ${JSON.stringify(event.data)}`,
  ];
  return `${lines.join('\n')}\n`;
}

function block(code: string): string {
  return `<pre><code>${escapeHtml(code)}</code></pre>`;
}

function table(title: string, head: readonly string[], rows: readonly string[]): string {
  const heading = title === '' ? '' : `<h4>${title}</h4>`;
  return `${heading}<div class="wide"><table><thead><tr>${head.map((name) => `<th>${name}</th>`).join('')}</tr></thead>
<tbody>${rows.join('\n')}</tbody></table></div>`;
}

/** Paragraphs, with what little Markdown the contract uses. Tables of it are shown in their own sections. */
function prose(markdown: string): string {
  return markdown
    .split(/\n\s*\n/)
    .filter((paragraph) => paragraph.trim() !== '' && !paragraph.startsWith('|'))
    .map((paragraph) => `<p>${inline(paragraph)}</p>`)
    .join('\n');
}

function inline(markdown: string): string {
  return escapeHtml(markdown)
    .replace(/`([^`]+)`/g, '<code>$1</code>')
    .replace(/\*\*([^*]+)\*\*/g, '<strong>$1</strong>');
}

function id(operation: Part): string {
  return text(operation, 'operationId');
}

function follow(contract: Part, value: Part): Part {
  if (typeof value.$ref !== 'string') return value;
  return value.$ref.slice(2).split('/').reduce(part, contract);
}

function part(parent: Part, key: string): Part {
  const value = parent[key];
  return isPart(value) ? value : {};
}

function parts(parent: Part, key: string): readonly Part[] {
  const value = parent[key];
  return Array.isArray(value) ? value.filter(isPart) : [];
}

function isPart(value: unknown): value is Part {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function text(parent: Part, key: string): string {
  const value = parent[key];
  return typeof value === 'string' ? value : '';
}

function escapeHtml(raw: string): string {
  return raw
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;');
}

const style = `
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --link: light-dark(#0b57d0, #8ab4f8); }
* { box-sizing: border-box; }
body { margin: 0; font: 16px/1.55 system-ui, sans-serif; display: grid; grid-template-columns: 17rem minmax(0, 1fr); }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1.5rem 1rem; border-right: 1px solid var(--line);
  font-size: .875rem; }
nav ul { list-style: none; margin: 0; padding: 0; } nav ul ul { padding: .15rem 0 .6rem .75rem; }
nav > ul > li > a { font-weight: 600; text-transform: capitalize; }
main { padding: 2rem clamp(1rem, 4vw, 3.5rem) 6rem; max-width: 68rem; }
a { color: var(--link); text-decoration: none; } a:hover { text-decoration: underline; }
h1 { font-size: 2rem; margin: 0 0 1rem; } h2 { margin: 3.5rem 0 .5rem; text-transform: capitalize; font-size: 1.5rem; }
h3 { margin: 0 0 .4rem; font-size: 1.125rem; } h4 { margin: 1.25rem 0 .35rem; font-size: .875rem; }
article { border-top: 1px solid var(--line); padding: 1.5rem 0 .5rem; }
article, section, tr[id] { scroll-margin-top: 1rem; } tr:target { background: #fc03; }
.call { margin: 0 0 .5rem; } .call span { font-size: .8125rem; opacity: .75; margin-left: .5rem; }
.call b { font: 600 .75rem/1 ui-monospace, monospace; padding: .25rem .4rem; border-radius: .25rem; color: #fff;
  background: #5f6368; }
.call .get { background: #1967d2; } .call .post { background: #137333; } .call .patch { background: #a15c00; }
.call .delete { background: #b3261e; }
code, pre { font: .8125rem/1.5 ui-monospace, SFMono-Regular, Menlo, monospace; }
:not(pre) > code { background: var(--soft); padding: .1em .3em; border-radius: .2em; overflow-wrap: anywhere; }
pre { background: var(--soft); padding: .75rem 1rem; border-radius: .4rem; overflow: auto; max-height: 24rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .875rem; }
th, td { text-align: left; vertical-align: top; padding: .4rem .75rem .4rem 0; border-bottom: 1px solid var(--line); }
th { font-weight: 600; opacity: .7; }
@media (max-width: 50rem) { body { display: block; } nav { position: static; height: auto; max-height: 40vh;
  border-right: 0; border-bottom: 1px solid var(--line); } }
`;
