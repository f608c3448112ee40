return {summary = "x", run=function() end}
