/** A component that is drawn again only if one of its properties changed. */

import { Component, type ComponentChild, type FunctionComponent } from "preact";

export function memo<Props extends object>(draw: (props: Props) => ComponentChild): FunctionComponent<Props> {
  class Memo extends Component<Props> {
    override shouldComponentUpdate(next: Props): boolean {
      const before = this.props as Record<string, unknown>;
      return Object.entries(next).some(([name, value]) => before[name] !== value);
    }

    override render(): ComponentChild {
      return draw(this.props);
    }
  }
  return Memo as unknown as FunctionComponent<Props>;
}
