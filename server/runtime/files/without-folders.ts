/** Takes the places of the server out of a text that is shown to somebody who shares it: they are nobody's business but the operator's. */

/** Paths within the workspace become relative; of others only the last name is left. */
export function withoutFolders(text: string, workspacePath: string): string {
  return text
    .replaceAll(`${workspacePath}/`, '')
    .replaceAll(workspacePath, '.')
    .replaceAll(/(?<![\w.:/])\/(?:[^\s/'"`,;:()]+\/)+([^\s/'"`,;:()]+)/g, '$1');
}
