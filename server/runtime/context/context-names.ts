/** The names under which projects keep notes for agents, as the tools of the field write them. */

/** Those ending in `/` are folders, of which every Markdown file counts. Each is looked for in every folder of a project. */
export const contextNames: readonly string[] = [
  '.github/copilot-instructions.md',
  '.cursorrules',
  '.cursor/rules/',
  'CLAUDE.md',
  'CLAUDE.local.md',
  'GEMINI.md',
  'gemini.md',
  'service.md',
  'service.local.md',
  'Service.md',
  'Service.local.md',
  'SERVICE.md',
  'SERVICE.local.md',
  'AGENTS.md',
  'agents.md',
  'Agents.md',
];
