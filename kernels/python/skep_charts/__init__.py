def chart_figure_to_dict(f):
    return {}
